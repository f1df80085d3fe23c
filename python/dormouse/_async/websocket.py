"""A WebSocket: the protocol by the websockets package, over a stream of our own.

The synchronous client of that package needs version 11, and its client of version 10 does not tell why a server refused
a connection. Its protocol without I/O does both, and is the same for both halves.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

import websockets.client
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import Opcode
from websockets.uri import parse_uri

from .._deadline import Deadline
from .._errors import error_from_response, error_of
from .._paths import with_query
from .http import Http
from .io import Stream, new_lock
from .session import CONNECT_SECONDS, NeverSent
from .upload import PIECE_BYTES

# The server pings every 30 seconds.
SILENCE_SECONDS = 90.0
NORMAL_CLOSURE = 1000
# Far more than one event of a terminal.
MESSAGE_MAX_BYTES = 64 * 1024**2
# Version 10 has another name for it.
Protocol: Any = getattr(websockets.client, "ClientProtocol", None) or getattr(websockets.client, "ClientConnection")


class WebSocket:
    """One thread or task may read while another writes."""

    def __init__(self, stream: Stream, protocol: Any) -> None:
        self._stream = stream
        self._protocol = protocol
        # The protocol is not thread-safe. This lock is never held while waiting for the network.
        self._state_lock = new_lock()
        self._write_lock = new_lock()
        self._to_send: list[bytes] = []
        self._frames: list[Any] = []
        self._begun: list[bytes] = []
        self._is_text = False

    @classmethod
    async def open(cls, http: Http, path: str, query: Mapping[str, object]) -> WebSocket:
        """Raises the error of a server that refuses, or `server_unreachable`."""
        address = http.address_for(path)
        url = with_query(address.origin + address.prefix + path, query)
        protocol = Protocol(parse_uri("ws" + url[len("http") :]), max_size=MESSAGE_MAX_BYTES)
        request = protocol.connect()
        for name, value in http.headers.items():
            request.headers[name] = value
        try:
            stream = await Stream.open(address.host, address.port, http.tls(address), CONNECT_SECONDS)
        except OSError as cause:
            raise http.lost(NeverSent(str(cause)), path) from cause
        socket = cls(stream, protocol)
        try:
            await socket._shake_hands(request)
            return socket
        except InvalidStatus as refusal:
            stream.abort()
            answer = refusal.response
            headers = {name.lower(): value for name, value in answer.headers.raw_items()}
            raise error_from_response(answer.status_code, headers, bytes(answer.body or b"")) from None
        except Exception as cause:
            stream.abort()
            raise http.lost(cause) from cause
        except BaseException:
            stream.abort()
            raise

    async def receive(self) -> Optional[tuple[bool, bytes]]:
        """`(is_text, payload)`, or None after the server closed it. Raises `server_unreachable` when it breaks."""
        try:
            while True:
                while self._frames:
                    frame = self._frames.pop(0)
                    if frame.opcode is Opcode.CLOSE:
                        self.abort()
                        return None
                    message = self._join(frame)
                    if message is not None:
                        return message
                await self._read(SILENCE_SECONDS)
        except OSError as cause:
            self.abort()
            raise error_of("server_unreachable", f"The connection broke: {cause}") from cause

    async def send_bytes(self, data: bytes) -> None:
        """Raises OSError."""
        try:
            async with self._state_lock:
                self._protocol.send_binary(data)
                self._to_send += self._protocol.data_to_send()
        except WebSocketException as cause:
            raise ConnectionError(f"it is closing: {cause}") from cause
        await self._flush()

    async def close(self) -> None:
        """Tells the server, and does not wait for its answer."""
        try:
            async with self._state_lock:
                self._protocol.send_close(NORMAL_CLOSURE)
                self._to_send += self._protocol.data_to_send()
            await self._flush()
        except Exception:
            # It is closing or broken already.
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        self._stream.abort()

    async def _shake_hands(self, request: Any) -> None:
        self._protocol.send_request(request)
        self._to_send += self._protocol.data_to_send()
        await self._flush()
        deadline = Deadline(CONNECT_SECONDS)
        while not self._frames and self._protocol.handshake_exc is None:
            await self._read(deadline.left())
        if self._protocol.handshake_exc is not None:
            raise self._protocol.handshake_exc
        # The response of the server; frames may have come with it.
        self._frames.pop(0)

    async def _read(self, timeout: Optional[float]) -> None:
        """Raises OSError."""
        data = await self._stream.read(PIECE_BYTES, timeout)
        async with self._state_lock:
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            self._frames += self._protocol.events_received()
            self._to_send += self._protocol.data_to_send()
        if not data and not self._frames:
            raise ConnectionResetError("it ended without a close frame")
        if self._to_send:
            await self._flush()

    def _join(self, frame: Any) -> Optional[tuple[bool, bytes]]:
        """A message when its last frame has come."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return None
        self._begun.append(bytes(frame.data))
        if not frame.fin:
            return None
        pieces, self._begun = self._begun, []
        return self._is_text, b"".join(pieces)

    async def _flush(self) -> None:
        async with self._write_lock:
            async with self._state_lock:
                pending, self._to_send = self._to_send, []
            if pending:
                await self._stream.write(b"".join(pending))
