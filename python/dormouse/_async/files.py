"""Files of a sandbox."""

from __future__ import annotations

from typing import IO, Any, AsyncIterator, Iterable, List, Optional, Union

from .._json import decode, decode_all, given
from .._errors import DormouseError, error_of, is_transient
from .._backoff import Backoff
from .._values import FileStat
from .session import Response
from .upload import PIECE_BYTES, Body
from .http import RESTART_SECONDS, Http
from .io import sleep
from .watch import AsyncWatch

Content = Union[str, bytes, bytearray, memoryview, IO[bytes], Iterable[bytes], AsyncIterator[bytes]]


class AsyncFiles:
    """Paths are absolute, or relative to the home of `user`, a user of the sandbox. None is its default user."""

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    async def read(self, path: str, *, encoding: str = "utf-8", user: Optional[str] = None) -> str:
        """Returns the file as text."""
        return (await self.read_bytes(path, user=user)).decode(encoding)

    async def read_bytes(self, path: str, *, user: Optional[str] = None) -> bytes:
        """Returns the file."""
        pieces = []
        async for piece in self.stream(path, user=user):
            pieces.append(piece)
        return b"".join(pieces)

    def stream(self, path: str, *, user: Optional[str] = None) -> AsyncFileStream:
        """Reads a file of any size in pieces. Raises `conflict` if the file changes after a lost connection."""
        return AsyncFileStream(self._http, self._sandbox, path, user)

    async def write(
        self,
        path: str,
        data: Content,
        *,
        mode: Optional[int] = None,
        parents: bool = False,
        append: bool = False,
        user: Optional[str] = None,
    ) -> FileStat:
        """Replaces the file: readers see the old one or the new one. Streams an open file or an iterable."""
        query = {"path": path, "mode": _octal(mode), "parents": parents, "append": append, "user": user}
        content = _body(data)
        repeatable = not append
        target = await self._sandbox._at("files")
        # A big file may take long.
        answer = await self._http.json(
            "PUT", target, query=query, content=content, repeatable=repeatable, timeout=None
        )
        return decode(FileStat, answer)

    async def list(self, path: str, *, depth: int = 1, user: Optional[str] = None) -> List[FileStat]:
        """Sorted by name, directories before their contents. Does not follow links."""
        query = {"path": path, "depth": depth, "user": user}
        return decode_all(FileStat, (await self._get("list", query))["items"])

    async def stat(self, path: str, *, follow: bool = True, user: Optional[str] = None) -> FileStat:
        """`follow=False` describes a link itself."""
        return decode(FileStat, await self._get("stat", {"path": path, "follow": follow, "user": user}))

    async def exists(self, path: str, *, user: Optional[str] = None) -> bool:
        try:
            await self.stat(path, user=user)
            return True
        except DormouseError as error:
            if error.code not in ("not_found", "not_a_directory"):
                raise
        # Raises `not_found` if it is the sandbox that does not exist.
        await self._http.json("GET", await self._sandbox._at())
        return False

    async def mkdir(
        self, path: str, *, parents: bool = True, mode: Optional[int] = None, user: Optional[str] = None
    ) -> FileStat:
        """With `parents`, makes missing parents and accepts an existing directory."""
        body = given(path=path, parents=parents, mode=_octal(mode), user=user)
        return decode(FileStat, await self._post("mkdir", body, repeatable=parents))

    async def move(
        self, source: str, target: str, *, overwrite: bool = True, user: Optional[str] = None
    ) -> FileStat:
        body = {"from": source, "to": target, **given(overwrite=overwrite, user=user)}
        return decode(FileStat, await self._post("move", body))

    async def remove(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> None:
        """Removes a symbolic link itself, not its target."""
        query = {"path": path, "recursive": recursive, "user": user}
        await self._http.json("DELETE", await self._sandbox._at("files"), query=query)

    async def watch(self, path: str, *, recursive: bool = False, user: Optional[str] = None) -> AsyncWatch:
        """Watches for changes from now on. Keeps the sandbox awake until it is closed."""
        query = {"path": path, "recursive": recursive, "user": user}
        target = await self._sandbox._at("files", "watch")
        watch = AsyncWatch(self._http, target, query)
        await watch._connect()
        return watch

    async def _get(self, what: str, query: Any) -> Any:
        return await self._http.json("GET", await self._sandbox._at("files", what), query=query)

    async def _post(self, what: str, body: Any, repeatable: bool = False) -> Any:
        path = await self._sandbox._at("files", what)
        return await self._http.json("POST", path, body=body, repeatable=repeatable)


class AsyncFileStream:
    """The content of a file in pieces. Continues after a lost connection if the file is still the same."""

    def __init__(self, http: Http, sandbox: Any, path: str, user: Optional[str]) -> None:
        self._http = http
        self._sandbox = sandbox
        self._query = {"path": path, "user": user}
        self._response: Optional[Response] = None
        self._is_over = False
        self._read_bytes = 0
        self._backoff = Backoff(RESTART_SECONDS)
        # The ETag of the file: after a lost connection, only the same file is continued.
        self._tag: Optional[str] = None
        # A file without a length, as in /proc, cannot be continued in the middle.
        self._has_length = True

    def __aiter__(self) -> AsyncFileStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._is_over:
            try:
                if self._response is None:
                    self._response = await self._open()
                piece = await self._response.piece()
            except (OSError, DormouseError) as cause:
                self._drop()
                error = cause if isinstance(cause, DormouseError) else self._http.lost(cause)
                if not is_transient(error) or (self._read_bytes > 0 and not self._has_length):
                    self._is_over = True
                    raise error
                await sleep(self._backoff.next_delay(error))
                continue
            self._backoff.reset()
            self._read_bytes += len(piece)
            if piece:
                return piece
            self._is_over = True
        raise StopAsyncIteration

    async def __aenter__(self) -> AsyncFileStream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._is_over = True
        self._drop()

    def _drop(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    async def _open(self) -> Response:
        path = await self._sandbox._at("files")
        # Not If-Range: it does not allow weak ETags, and a date has a resolution of one second.
        headers = {"range": f"bytes={self._read_bytes}-"} if self._read_bytes > 0 else {}
        try:
            response = await self._http.open("GET", path, query=self._query, headers=headers)
        except DormouseError as error:
            if self._read_bytes == 0 or error.code != "range_not_satisfiable":
                raise
            raise self._changed() from None
        tag = response.headers.get("etag")
        if self._read_bytes > 0 and (response.status != 206 or tag != self._tag):
            response.close()
            raise self._changed()
        self._tag = tag
        self._has_length = "content-length" in response.headers
        return response

    def _changed(self) -> DormouseError:
        message = f"{self._query['path']}: changed while it was read"
        return error_of("conflict", message, hint="Read it again, or read a copy.")


def _octal(mode: Optional[int]) -> Optional[str]:
    return None if mode is None else f"{mode:04o}"


def _body(data: Any) -> Body:
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    return _pieces(data)


async def _pieces(data: Any) -> AsyncIterator[bytes]:
    if hasattr(data, "read"):
        while True:
            piece = data.read(PIECE_BYTES)
            if not piece:
                return
            yield _bytes_of(piece)
    elif hasattr(data, "__aiter__"):
        async for piece in data:
            yield _bytes_of(piece)
    else:
        for piece in data:
            yield _bytes_of(piece)


def _bytes_of(piece: Any) -> bytes:
    return piece.encode() if isinstance(piece, str) else bytes(piece)
