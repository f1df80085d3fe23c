"""A TCP relay in front of the server that can cut connections."""

from __future__ import annotations

import os
import socket
import threading
from typing import Optional
from urllib.parse import urlsplit


class FlakyProxy:
    """Cuts every connection after `cut_after` bytes of answers, `cuts` times in all."""

    def __init__(self, cut_after: Optional[int] = None, cuts: int = 0) -> None:
        self.cut_after = cut_after
        self.cuts = cuts
        self.made_cuts = 0
        self.connections = 0
        parts = urlsplit(os.environ["DORMOUSE_URL"])
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FlakyProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        for each in self._open:
            _end(each)
        self._open = []

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self._target)
            self._open += [client, server]
            threading.Thread(target=self._relay, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client, True), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        passed = 0
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if is_answer and self.cut_after is not None and self.made_cuts < self.cuts:
                    if passed + len(data) > self.cut_after:
                        sink.sendall(data[: self.cut_after - passed])
                        self.made_cuts += 1
                        break
                    passed += len(data)
                sink.sendall(data)
        except OSError:
            pass
        _end(source)
        _end(sink)


def _end(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    each.close()
