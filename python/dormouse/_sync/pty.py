# Written by tools/make_sync.py from _async/pty.py: change that one.
"""Terminals of a sandbox."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional, Union

from .._json import decode, given, milliseconds
from .._errors import DormouseError, error_from_answer, error_of, is_transient
from .._backoff import Backoff
from .._process import PtyExit
from .commands import Command, Commands, CommandLine, command_body
from .follow import RECONNECT_SECONDS
from .http import Http
from .io import new_lock, sleep
from .websocket import WebSocket

SHELL = ("/bin/bash", "-i")
# The server takes no longer message.
MESSAGE_BYTES = 256 * 1024


class Ptys:
    def __init__(self, http: Http, sandbox: Any, commands: Commands) -> None:
        self._http = http
        self._sandbox = sandbox
        self._commands = commands

    def create(
        self,
        command: CommandLine = SHELL,
        *,
        cols: int = 80,
        rows: int = 24,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> Pty:
        """Opens a shell, or starts a command, in a terminal."""
        options = given(cwd=cwd, user=user, timeout_ms=milliseconds(timeout))
        body = {
            **command_body(command),
            **options,
            "env": {"TERM": "xterm-256color", **(env or {})},
            "pty": {"cols": cols, "rows": rows},
        }
        return Pty(self._http, self._commands._start(body), -1, is_new=True)

    def connect(self, pid: int, *, after: int = -1) -> Pty:
        """The terminal of a process that was started before; `after`: only what came after this `seq`."""
        return Pty(self._http, self._commands.connect(pid), after)


class Pty:
    """A terminal with a process in it: going through it gives what it shows, as text.

    Connections that are lost are made again, and nothing that was shown is missed. The process lives on without any.
    One thread or task may read while another writes.
    """

    def __init__(self, http: Http, command: Command, after: int, is_new: bool = False) -> None:
        self._http = http
        self._command = command
        self._socket: Optional[WebSocket] = None
        self._opening = new_lock()
        self._backoff = Backoff(RECONNECT_SECONDS)
        self._seen = after
        self._is_closed = False
        # Just started, and not looked at yet.
        self._is_new = is_new
        self.pid = command.pid
        # How it ended; None until then.
        self.exit: Optional[PtyExit] = None

    @property
    def exit_code(self) -> Optional[int]:
        """None until it has ended."""
        return None if self.exit is None else self.exit.exit_code

    def __iter__(self) -> Pty:
        return self

    def __next__(self) -> str:
        text = self.read()
        if text is None:
            raise StopIteration
        return text

    def __enter__(self) -> Pty:
        return self

    def __exit__(self, *_: Any) -> None:
        self.disconnect()

    def read(self) -> Optional[str]:
        """What it shows next, with its control sequences. None when it has ended, or was disconnected."""
        while self.exit is None and not self._is_closed:
            try:
                message = (self._connected()).receive()
                if message is None:
                    self._socket = None
                    continue
                self._backoff.reset()
                is_text, payload = message
                if not is_text:
                    # One event of the process.
                    self._seen += 1
                    return payload.decode("utf-8", "replace")
                self._hear(json.loads(payload))
            except DormouseError as error:
                self._hang_up()
                if self._is_closed:
                    return None
                if not is_transient(error):
                    raise
                sleep(self._backoff.next_delay(error))
        return None

    def write(self, data: Union[str, bytes]) -> None:
        """Types. Wakes the sandbox if need be. What is lost with a connection is not typed again.

        Raises `conflict` when it has ended, or was disconnected.
        """
        content = data.encode() if isinstance(data, str) else bytes(data)
        for start in range(0, len(content), MESSAGE_BYTES):
            socket = self._connected(is_typing=True)
            try:
                socket.send_bytes(content[start : start + MESSAGE_BYTES])
            except OSError as cause:
                self._hang_up()
                raise self._http.lost(cause) from cause

    def resize(self, cols: int, rows: int) -> None:
        self._command.resize(cols, rows)

    def kill(self, signal: str = "SIGKILL") -> None:
        """A signal to it and its group."""
        self._command.kill(signal)

    def wait(self) -> int:
        """Goes through what is left to its end. Its exit code; `exit` says more."""
        while self.read() is not None:
            pass
        if self.exit is None:
            # Disconnected: it is waited for all the same.
            ended = self._command.wait()
            self.exit = PtyExit(ended.exit_code, ended.duration_ms, ended.timed_out, ended.signal)
        return self.exit.exit_code

    def disconnect(self) -> None:
        """Hangs up. The process goes on, and `pty.connect(pid)` finds it again."""
        self._is_closed = True
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _connected(self, is_typing: bool = False) -> WebSocket:
        with self._opening:
            self._require_open()
            if self._socket is None:
                # The terminal of a process that has ended can be read, and takes what is typed without a word.
                if is_typing and not self._is_new and (self._command.info()).state == "exited":
                    raise self._ended()
                path = self._command._at("pty")
                socket = WebSocket.open(self._http, path, {"after": self._seen})
                if self._is_closed:
                    socket.abort()
                self._require_open()
                self._socket, self._is_new = socket, False
            return self._socket

    def _require_open(self) -> None:
        if self.exit is not None:
            raise self._ended()
        if self._is_closed:
            raise self._no_more("was disconnected", "`pty.connect(pid)` connects to it again.")

    def _ended(self) -> DormouseError:
        return self._no_more("has ended", "`pty.wait()` says how; `pty.create()` opens another one.")

    def _no_more(self, why: str, hint: str) -> DormouseError:
        return error_of("conflict", f"The terminal of process {self.pid} {why}", hint=hint)

    def _hear(self, said: Mapping[str, Any]) -> None:
        if said["type"] in ("start", "truncated"):
            self._seen = said["seq"]
        elif said["type"] == "exit":
            self.exit = decode(PtyExit, said)
            self._hang_up()
        elif said["type"] == "error":
            raise error_from_answer(said["error"])

    def _hang_up(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.abort()
