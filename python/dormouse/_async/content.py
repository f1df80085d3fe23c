"""What callers give as the content of a file or an archive."""

from __future__ import annotations

from typing import IO, AbstractSet, Any, AsyncIterable, AsyncIterator, Iterable, Mapping, Union

from .._arguments import bytes_of, invalid_argument
from .._errors import DormouseError
from .io import call_function
from .upload import PIECE_BYTES, Body

Content = Union[str, bytes, bytearray, memoryview, IO[bytes], Iterable[bytes], AsyncIterable[bytes]]


def body_of(name: str, data: Any) -> Body:
    """The body of a request from an argument of the caller."""
    if isinstance(data, (str, bytes, bytearray, memoryview)):
        return bytes_of(name, data)
    is_stream = hasattr(data, "read") or isinstance(data, (Iterable, AsyncIterable))
    if not is_stream or isinstance(data, (Mapping, AbstractSet)):
        raise _no_content(name, type(data).__name__)
    if isinstance(data, (list, tuple)):
        # Refused before the file is touched.
        return b"".join(_piece(name, each) for each in data)
    return _pieces(name, data)


async def _pieces(name: str, data: Any) -> AsyncIterator[bytes]:
    if hasattr(data, "read"):
        while True:
            piece = await call_function(data.read, PIECE_BYTES)
            if not piece:
                return
            # A file that is open in text mode returns text.
            yield bytes_of(name, piece)
    elif isinstance(data, AsyncIterable):
        async for piece in data:
            yield _piece(name, piece)
    else:
        for piece in data:
            yield _piece(name, piece)


def _piece(name: str, piece: Any) -> bytes:
    if isinstance(piece, str):
        raise _no_content(name, "an iterable of text")
    return bytes_of(name, piece)


def _no_content(name: str, seen: str) -> DormouseError:
    return invalid_argument(
        name,
        f"must be text, bytes, an open file or an iterable of bytes (saw {seen})",
        hint="Give `json.dumps(data)` for JSON, and `open(path, 'rb')` for a file of this machine.",
    )
