# Written by tools/make_sync.py from _async/upload.py: change that one.
"""Bodies of requests, and servers that refuse a body before they have read all of it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Iterator, Optional, Union

import httpcore

PIECE_BYTES = 64 * 1024
Body = Union[bytes, Iterator[bytes]]


class Upload:
    """The body of one request."""

    def __init__(self, body: Body) -> None:
        self._body = body
        # The server has closed its end: its answer says why.
        self.is_refused = False

    def pieces(self) -> Iterator[bytes]:
        if isinstance(self._body, bytes):
            # Not in one piece: httpcore would copy what is left after every write.
            for start in range(0, len(self._body), PIECE_BYTES):
                yield self._body[start : start + PIECE_BYTES]
            return
        for piece in self._body:
            if self.is_refused:
                return
            yield piece


# Of the request that this task or thread is sending.
current_upload: ContextVar[Optional[Upload]] = ContextVar("current_upload", default=None)


def read_answer_after_refusal(stream: Any) -> None:
    """Makes httpcore before 1.0 read the answer of a server that has stopped reading an upload, as later versions do."""
    write = stream.write

    def write_unless_refused(buffer: bytes, timeout: Optional[float] = None) -> None:
        upload = current_upload.get()
        if upload is not None and upload.is_refused:
            return
        try:
            write(buffer, timeout)
        except httpcore.WriteError:
            if upload is None:
                raise
            upload.is_refused = True

    stream.write = write_unless_refused
