"""The control socket to the agent: frames of u32 length and JSON."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios
import threading
import time
from collections import deque
from typing import Any

from dormouse_json import decode, make_encoder
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.limits import READ_WAIT_S, READ_WAIT_STEP_S

LENGTH = struct.Struct(">I")
encode = make_encoder(allow_nan=True)


class Control:
    def __init__(self, fd: int, interrupts: Interrupts) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)
        self._interrupts = interrupts
        # Threads of user code may display something while the main thread does.
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._inbox: deque[dict[str, Any]] = deque()
        self.in_child = False
        # The agent has closed its end.
        self.closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: dict[str, Any]) -> None:
        self.send_encoded(encode(message))

    def send_encoded(self, payload: bytes) -> None:
        if self.in_child:
            return
        with self._interrupts.deferred(), self._lock:
            self._socket.sendall(LENGTH.pack(len(payload)) + payload)

    def wait_until_read(self) -> None:
        """Waits until the agent has read all messages, so that later output comes after them."""
        if self.in_child:
            return
        deadline = time.monotonic() + READ_WAIT_S
        while _unread_bytes(self._socket.fileno()) and time.monotonic() < deadline:
            time.sleep(READ_WAIT_STEP_S)

    def receive(self) -> dict[str, Any] | None:
        """Returns the next message, or None when the agent has closed the socket."""
        while not self._inbox:
            data = self._socket.recv(1 << 18)
            if not data:
                return None
            self._buffer += data
            self._unpack()
        return self._inbox.popleft()

    def has_interrupt(self, run_id: str) -> bool:
        """Whether the agent sent an interrupt for this run before the run began."""
        self._read_available()
        return any(m.get("type") == "interrupt" and m.get("id") == run_id for m in self._inbox)

    def find_waiting(self, kind: str) -> list[dict[str, Any]]:
        """Received messages of one type that no method has returned yet. Pre: no other method is reading."""
        self._read_available()
        return [message for message in self._inbox if message["type"] == kind]

    def discard(self, message: dict[str, Any]) -> None:
        self._inbox.remove(message)

    @property
    def waiting(self) -> bool:
        return bool(self._inbox)

    def leave(self) -> None:
        """For a forked child: only the parent talks to the agent."""
        self.in_child = True
        self._lock = threading.Lock()
        self._socket.close()

    def _read_available(self) -> None:
        while select.select([self._socket], [], [], 0)[0]:
            data = self._socket.recv(1 << 18)
            if not data:
                self.closed = True
                break
            self._buffer += data
            self._unpack()

    def _unpack(self) -> None:
        buffer = self._buffer
        while len(buffer) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            self._inbox.append(decode(bytes(memoryview(buffer)[LENGTH.size : end])))
            del buffer[:end]


def _unread_bytes(fd: int) -> int:
    # SIOCOUTQ shares its number with TIOCOUTQ.
    return int.from_bytes(fcntl.ioctl(fd, termios.TIOCOUTQ, b"\0\0\0\0"), "little")
