# Written by tools/make_sync.py from _async/websocket.py: change that one.
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
    def open(cls, http: Http, path: str, query: Mapping[str, object]) -> WebSocket:
        key = new_key()
        headers = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": key,
        }
        connection = http.upgrade(path, headers, query)
        try:
            deadline = Deadline(CONNECT_SECONDS)
            head = connection.head("GET", deadline)
            if head.status != 101:
                refused = Response(connection, head, _no_more)
                raise error_from_response(head.status, head.headers, refused.read(deadline))
            if head.headers.get("sec-websocket-accept") != accept_of(key):
                raise ProtocolError("the answer is not that of a WebSocket")
            return cls(connection)
        except (OSError, ProtocolError) as cause:
            connection.stream.abort()
            raise http.lost(cause) from cause
        except BaseException:
            connection.stream.abort()
            raise

    def receive(self) -> Optional[tuple[bool, bytes]]:
        """`(is_text, payload)`, or None when the other end has closed it. Raises `server_unreachable` when it breaks."""
        try:
            return self._receive()
        except (OSError, ProtocolError) as cause:
            self.abort()
            raise error_of("server_unreachable", f"The connection broke: {cause}") from cause

    def send_bytes(self, data: bytes) -> None:
        self._send(BINARY, data)

    def send_text(self, text: str) -> None:
        self._send(TEXT, text.encode())

    def close(self) -> None:
        """Says good-bye, without waiting for an answer."""
        try:
            self._say_close(NORMAL_CLOSURE)
        except OSError:
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        self._connection.stream.abort()

    def _receive(self) -> Optional[tuple[bool, bytes]]:
        while True:
            frame = self._frames.next()
            if frame is None:
                data = self._connection.some(PIECE_BYTES, SILENCE_SECONDS)
                if not data:
                    raise ConnectionResetError("it ended without a word")
                self._frames.add(data)
            elif frame.opcode == PING:
                self._send(PONG, frame.payload)
            elif frame.opcode == CLOSE:
                code = struct.unpack("!H", frame.payload[:2])[0] if len(frame.payload) >= 2 else NORMAL_CLOSURE
                self._say_close(code)
                self.abort()
                return None
            elif frame.opcode != PONG:
                message = self._joiner.add(frame)
                if message is not None:
                    return message[0] == TEXT, message[1]

    def _say_close(self, code: int) -> None:
        if not self._said_close:
            self._said_close = True
            self._send(CLOSE, struct.pack("!H", code))

    def _send(self, opcode: int, payload: bytes) -> None:
        with self._writing:
            self._connection.stream.write(encode_frame(opcode, payload))


def _no_more(connection: Connection, _keeps_alive: Any) -> None:
    connection.stream.abort()
