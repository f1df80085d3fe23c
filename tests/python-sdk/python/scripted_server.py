"""A server that answers each request with the next bytes of a script, for cases that a real one rarely has."""

from __future__ import annotations

import socket
import threading
from typing import Callable, Union

Step = Union[bytes, Callable[[socket.socket], None]]

# A sandbox as a server describes it.
SANDBOX = {
    "id": "sb-2222222222222222",
    "state": "running",
    "template": "python",
    "metadata": {},
    "idleTimeoutMs": 1,
    "storeAfterMs": 1,
    "maxBackgroundMs": 1,
    "atMemoryLimit": "kill",
    "ephemeral": False,
    "limits": {"memoryBytes": 1, "cpus": 1, "pids": 1, "diskBytes": 1, "files": 1},
    "volumes": [],
    "createdAt": "2026-01-01T00:00:00.000Z",
    "lastActiveAt": "2026-01-01T00:00:00.000Z",
    "stateSince": "2026-01-01T00:00:00.000Z",
}


class ScriptedServer:
    """`requests` has the head and the body of each request. An empty step closes the connection."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.requests: list[tuple[str, bytes]] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._answer(connection)
            except OSError:
                # The client has disconnected.
                pass

    def _answer(self, connection: socket.socket) -> None:
        reader = connection.makefile("rb")
        while self._steps:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = reader.readline()
                if not line:
                    return
                head += line
            text = head.decode()
            length = [line.split(":")[1] for line in text.split("\r\n") if line.lower().startswith("content-length:")]
            self.requests.append((text, reader.read(int(length[0])) if length else b""))
            step = self._steps.pop(0)
            if callable(step):
                step(connection)
                return
            if not step:
                return
            connection.sendall(step)
            if b"connection: close" in step:
                return


def answer(body: str, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body.encode())}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()
