"""The kernel's main loop: messages of the agent become commands of the interpreter, reports become messages."""

import json
import os
import selectors
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from dormouse_driver.interpreter import Interpreter
from dormouse_driver.reports import read_report

LENGTH = struct.Struct(">I")
READ_BYTES = 1 << 18


class Driver:
    def __init__(self, control_fd: int, interpreter: Interpreter) -> None:
        self._control = socket.socket(fileno=control_fd)
        self._control.set_inheritable(False)
        self._interpreter = interpreter
        self._incoming = bytearray()
        self._reports = bytearray()
        # What to do with the next reports, oldest first.
        self._waiting: deque[Callable[[int], None]] = deque()
        self._active_run: str | None = None
        # Wakes during a run: the request, and the code that updates the interpreter when the run has ended.
        self._wakes: list[tuple[int, str]] = []

    def serve(self) -> int:
        # The agent sends SIGINT beside its message. The signal only ends the wait for the message.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signalled, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        self._waiting.append(lambda code: self._send({"type": "ready"}))
        self._interpreter.start()
        os.set_blocking(self._interpreter.report_fd, False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ, self._on_messages)
            selector.register(self._interpreter.report_fd, selectors.EVENT_READ, self._on_reports)
            # The report pipe does not tell the end: a program in the background may hold it.
            selector.register(signalled, selectors.EVENT_READ, lambda: os.read(signalled, READ_BYTES))
            while (code := self._interpreter.exit_code()) is None:
                for key, _ in selector.select():
                    if not key.data():
                        # bash became another program, which is all that is left of it.
                        selector.unregister(key.fileobj)
        self._on_reports()
        return code

    def _on_messages(self) -> bool:
        data = self._control.recv(READ_BYTES)
        if not data:
            os._exit(0)
        self._incoming += data
        while len(self._incoming) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._incoming)[0]
            if len(self._incoming) < end:
                break
            message = json.loads(bytes(memoryview(self._incoming)[LENGTH.size : end]))
            del self._incoming[:end]
            self._take(message)
        return True

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "run":
            self._active_run = message["id"]
            self._execute(message["code"], self._finish_run)
        elif kind == "interrupt":
            if message["id"] == self._active_run:
                self._interpreter.interrupt()
        elif kind == "env":
            self._execute(self._interpreter.set_variables(message["env"], None), lambda code: None)
        elif kind == "wake":
            self._wake(message)
        elif kind == "preload":
            self._send({"type": "answer", "request": message["request"], "failed": message["modules"]})
        elif kind == "complete":
            self._send({"type": "answer", "request": message["request"]})
        elif kind == "variables":
            self._list_variables(message["request"])
        elif kind == "rows":
            self._send({"type": "answer", "request": message["request"]})

    def _list_variables(self, request: int) -> None:
        def answer(code: int) -> None:
            self._send({"type": "answer", "request": request, **self._interpreter.variables()})

        if not self._interpreter.lists_variables:
            answer(0)
            return
        self._waiting.append(answer)
        self._interpreter.write_variables()

    def _execute(self, code: str, then: Callable[[int], None]) -> None:
        """Pre: nothing else is being executed. The agent sends one run at a time, and `env` only between runs."""
        self._waiting.append(then)
        self._interpreter.run(code)

    def _finish_run(self, code: int) -> None:
        self._active_run = None
        self._send({"type": "done", "code": code})

    def _wake(self, message: dict[str, Any]) -> None:
        seed = int.from_bytes(os.urandom(4), "little") >> 1 if message["reseed"] else None
        self._wakes.append((message["request"], self._interpreter.set_variables(message["env"], seed)))
        if not self._waiting:
            self._finish_wakes()

    def _finish_wakes(self) -> None:
        """Sets the variables and answers. Pre: nothing is being executed."""
        if not self._wakes:
            return
        requests = [request for request, _ in self._wakes]
        code = "\n".join(code for _, code in self._wakes)
        self._wakes.clear()

        def answer(status: int) -> None:
            for request in requests:
                self._send({"type": "answer", "request": request})

        self._execute(code, answer)

    def _on_reports(self) -> bool:
        try:
            data = os.read(self._interpreter.report_fd, READ_BYTES)
        except BlockingIOError:
            return True
        self._reports += data
        while (end := self._reports.find(0)) >= 0:
            text = self._reports[:end].decode(errors="replace")
            del self._reports[: end + 1]
            if (message := read_report(text)) is not None:
                if self._active_run is not None:
                    self._send(message)
                continue
            if self._waiting:
                self._waiting.popleft()(int(text) & 0xFF if text.lstrip("-").isdecimal() else 1)
            if not self._waiting:
                self._finish_wakes()
        return bool(data)

    def _send(self, message: dict[str, Any]) -> None:
        payload = json.dumps(message).encode()
        self._control.sendall(LENGTH.pack(len(payload)) + payload)
