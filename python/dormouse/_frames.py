"""WebSocket frames (RFC 6455) without sockets."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from dataclasses import dataclass
from typing import Optional

from ._http1 import ProtocolError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL_CLOSURE = 1000
# Far more than one event of a terminal.
MESSAGE_MAX_BYTES = 64 * 1024**2
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True)
class Frame:
    opcode: int
    is_final: bool
    payload: bytes


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def accept_of(key: str) -> str:
    """What a server that speaks WebSocket answers to `key`."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def encode_frame(opcode: int, payload: bytes, is_final: bool = True) -> bytes:
    """As a client sends it: masked."""
    head = bytearray([(0x80 if is_final else 0) | opcode])
    length = len(payload)
    if length < 126:
        head.append(0x80 | length)
    elif length < 1 << 16:
        head += struct.pack("!BH", 0x80 | 126, length)
    else:
        head += struct.pack("!BQ", 0x80 | 127, length)
    mask = os.urandom(4)
    return bytes(head) + mask + _masked(payload, mask)


class FrameReader:
    """Give it bytes as they come; it gives whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Optional[Frame]:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        opcode, is_final, length, start = first & 0x0F, bool(first & 0x80), second & 0x7F, 2
        if first & 0x70 or second & 0x80:
            raise ProtocolError("a frame with bits that were not agreed on")
        if length == 126:
            start = 4
            if len(buffer) < start:
                return None
            (length,) = struct.unpack_from("!H", buffer, 2)
        elif length == 127:
            start = 10
            if len(buffer) < start:
                return None
            (length,) = struct.unpack_from("!Q", buffer, 2)
        if opcode >= CLOSE and (length > 125 or not is_final):
            raise ProtocolError("a control frame that is too long or in pieces")
        if length > MESSAGE_MAX_BYTES:
            raise ProtocolError(f"a message of {length} bytes")
        if len(buffer) < start + length:
            return None
        payload = bytes(buffer[start : start + length])
        del buffer[: start + length]
        return Frame(opcode, is_final, payload)


class MessageJoiner:
    """Makes messages of frames that are not control frames."""

    def __init__(self) -> None:
        self._opcode: Optional[int] = None
        self._pieces: list[bytes] = []
        self._bytes = 0

    def add(self, frame: Frame) -> Optional[tuple[int, bytes]]:
        """`(opcode, payload)` when it is whole."""
        if (frame.opcode == CONTINUATION) == (self._opcode is None):
            raise ProtocolError("a piece of a message in the wrong place")
        if frame.opcode not in (CONTINUATION, TEXT, BINARY):
            raise ProtocolError(f"a frame of kind {frame.opcode}")
        if self._opcode is None:
            self._opcode = frame.opcode
        self._pieces.append(frame.payload)
        self._bytes += len(frame.payload)
        if self._bytes > MESSAGE_MAX_BYTES:
            raise ProtocolError("a message that does not end")
        if not frame.is_final:
            return None
        message = (self._opcode, b"".join(self._pieces))
        self._opcode, self._pieces, self._bytes = None, [], 0
        return message


def _masked(payload: bytes, mask: bytes) -> bytes:
    # As one big number: byte by byte would take a second for a few megabytes.
    length = len(payload)
    repeated = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")
