"""One HTTP/1.1 connection."""

from __future__ import annotations

from typing import Any, AsyncIterator, Optional, Union

from .._deadline import Deadline
from .._http1 import CHUNKED, HEAD_MAX_BYTES, Head, ProtocolError, chunk_length, parse_head
from .io import Stream

PIECE_BYTES = 64 * 1024
Body = Union[bytes, AsyncIterator[bytes]]


class Connection:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def send(self, head: bytes, body: Optional[Body]) -> bool:
        """Whether all was taken. A server that has refused stops reading, and its answer says why."""
        if body is None or isinstance(body, bytes):
            await self.stream.write(head + (body or b""))
            return True
        await self.stream.write(head)
        async for piece in body:
            try:
                for start in range(0, len(piece), PIECE_BYTES):
                    part = piece[start : start + PIECE_BYTES]
                    await self.stream.write(b"%x\r\n%s\r\n" % (len(part), part))
            except OSError:
                return False
        try:
            await self.stream.write(b"0\r\n\r\n")
        except OSError:
            return False
        return True

    async def head(self, method: str, deadline: Deadline) -> Head:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end >= 0:
                raw = bytes(self._buffer[:end])
                del self._buffer[: end + 4]
                head = parse_head(raw, method)
                # 100 and the like only say that an answer will come; after 101 the connection is another.
                if head.status >= 200 or head.status == 101:
                    return head
                continue
            if len(self._buffer) > HEAD_MAX_BYTES:
                raise ProtocolError("the head of the answer does not end")
            await self.fill(deadline.left())

    async def line(self, timeout: Optional[float]) -> bytes:
        while True:
            end = self._buffer.find(b"\r\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 2]
                return line
            if len(self._buffer) > HEAD_MAX_BYTES:
                raise ProtocolError("a line does not end")
            await self.fill(timeout)

    async def some(self, limit: int, timeout: Optional[float]) -> bytes:
        """Empty at the end."""
        if not self._buffer:
            return await self.stream.read(min(limit, PIECE_BYTES), timeout)
        piece = bytes(self._buffer[:limit])
        del self._buffer[:limit]
        return piece

    async def fill(self, timeout: Optional[float]) -> None:
        data = await self.stream.read(PIECE_BYTES, timeout)
        if not data:
            raise ConnectionResetError("the connection ended before the answer")
        self._buffer += data


class Response:
    """An answer whose body is still to be read. Give it back with `close`, read or not."""

    def __init__(self, connection: Connection, head: Head, give_back: Any) -> None:
        self.status = head.status
        self.headers = head.headers
        self._connection: Optional[Connection] = connection
        self._head = head
        self._give_back = give_back
        self._left = head.length
        if head.length == 0:
            self._done()

    async def piece(self, timeout: Optional[float] = None) -> bytes:
        """Bytes of the body as they come; empty at the end. Raises OSError when it breaks off."""
        try:
            return await self._piece(timeout)
        except BaseException:
            self.close()
            raise

    async def read(self, deadline: Deadline) -> bytes:
        pieces: list[bytes] = []
        while True:
            piece = await self.piece(deadline.left())
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    def close(self) -> None:
        """A body that was not read to its end ends with its connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.stream.abort()

    def __del__(self) -> None:
        self.close()

    async def _piece(self, timeout: Optional[float]) -> bytes:
        connection = self._connection
        if connection is None:
            return b""
        if self._head.length == CHUNKED:
            return await self._chunk(connection, timeout)
        limit = PIECE_BYTES if self._left is None else self._left
        piece = await connection.some(limit, timeout)
        if self._left is None:
            if not piece:
                self.close()
            return piece
        if not piece:
            raise ConnectionResetError("the connection ended in the middle of the answer")
        self._left -= len(piece)
        if self._left == 0:
            self._done()
        return piece

    async def _chunk(self, connection: Connection, timeout: Optional[float]) -> bytes:
        if self._left == CHUNKED:
            self._left = chunk_length(await connection.line(timeout))
            if self._left == 0:
                while await connection.line(timeout):
                    pass
                self._done()
                return b""
        piece = await connection.some(self._left or 0, timeout)
        if not piece:
            raise ConnectionResetError("the connection ended in the middle of the answer")
        self._left = (self._left or 0) - len(piece)
        if self._left == 0:
            if await connection.line(timeout):
                raise ProtocolError("a chunk is longer than it says")
            self._left = CHUNKED
        return piece

    def _done(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._give_back(connection, self._head.keeps_alive)
