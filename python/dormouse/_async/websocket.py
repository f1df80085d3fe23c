"""A WebSocket (RFC 6455), the client's end."""

from __future__ import annotations

import struct
from typing import Any, Mapping, Optional

from .._deadline import Deadline
from .._errors import error_from_response, error_of
from .._frames import (
    BINARY,
    CLOSE,
    NORMAL_CLOSURE,
    PING,
    PONG,
    TEXT,
    FrameReader,
    MessageJoiner,
    accept_of,
    encode_frame,
    new_key,
)
from .._http1 import ProtocolError
from .connection import PIECE_BYTES, Connection, Response
from .http import CONNECT_SECONDS, Http
from .io import new_lock

# The server pings every 30 seconds.
SILENCE_SECONDS = 90.0


class WebSocket:
    """One may read while another writes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._frames = FrameReader()
        self._joiner = MessageJoiner()
        self._writing = new_lock()
        self._said_close = False

    @classmethod
    async def open(cls, http: Http, path: str, query: Mapping[str, object]) -> WebSocket:
        key = new_key()
        headers = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": key,
        }
        connection = await http.upgrade(path, headers, query)
        try:
            deadline = Deadline(CONNECT_SECONDS)
            head = await connection.head("GET", deadline)
            if head.status != 101:
                refused = Response(connection, head, _no_more)
                raise error_from_response(head.status, head.headers, await refused.read(deadline))
            if head.headers.get("sec-websocket-accept") != accept_of(key):
                raise ProtocolError("the answer is not that of a WebSocket")
            return cls(connection)
        except (OSError, ProtocolError) as cause:
            connection.stream.abort()
            raise http.lost(cause) from cause
        except BaseException:
            connection.stream.abort()
            raise

    async def receive(self) -> Optional[tuple[bool, bytes]]:
        """`(is_text, payload)`, or None when the other end has closed it. Raises `server_unreachable` when it breaks."""
        try:
            return await self._receive()
        except (OSError, ProtocolError) as cause:
            self.abort()
            raise error_of("server_unreachable", f"The connection broke: {cause}") from cause

    async def send_bytes(self, data: bytes) -> None:
        await self._send(BINARY, data)

    async def send_text(self, text: str) -> None:
        await self._send(TEXT, text.encode())

    async def close(self) -> None:
        """Says good-bye, without waiting for an answer."""
        try:
            await self._say_close(NORMAL_CLOSURE)
        except OSError:
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        self._connection.stream.abort()

    async def _receive(self) -> Optional[tuple[bool, bytes]]:
        while True:
            frame = self._frames.next()
            if frame is None:
                data = await self._connection.some(PIECE_BYTES, SILENCE_SECONDS)
                if not data:
                    raise ConnectionResetError("it ended without a word")
                self._frames.add(data)
            elif frame.opcode == PING:
                await self._send(PONG, frame.payload)
            elif frame.opcode == CLOSE:
                code = struct.unpack("!H", frame.payload[:2])[0] if len(frame.payload) >= 2 else NORMAL_CLOSURE
                await self._say_close(code)
                self.abort()
                return None
            elif frame.opcode != PONG:
                message = self._joiner.add(frame)
                if message is not None:
                    return message[0] == TEXT, message[1]

    async def _say_close(self, code: int) -> None:
        if not self._said_close:
            self._said_close = True
            await self._send(CLOSE, struct.pack("!H", code))

    async def _send(self, opcode: int, payload: bytes) -> None:
        async with self._writing:
            await self._connection.stream.write(encode_frame(opcode, payload))


def _no_more(connection: Connection, _keeps_alive: Any) -> None:
    connection.stream.abort()
