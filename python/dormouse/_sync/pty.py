# Written by tools/make_sync.py from _async/pty.py: change that one.
"""Terminals of a sandbox."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional, Union

from .._arguments import bytes_of, milliseconds, require_count
from .._json import decode, given
from .._errors import DormouseError, error_from_answer, error_of, is_transient
from .._backoff import Backoff
from .._process import PtyExit
from .commands import Command, Commands, CommandLine, command_body
from .follow import RECONNECT_SECONDS, limited
from .http import Http
from .io import new_lock, sleep
from .websocket import WebSocket

SHELL = ("/bin/bash", "-i")
# The longest message that the server accepts.
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
        """Starts a shell or another command in a terminal."""
        options = given(cwd=cwd, user=user, timeout_ms=milliseconds("timeout", timeout))
        body = {
            **command_body(command),
            **options,
            "env": {"TERM": "xterm-256color", **(env or {})},
            "pty": {"cols": require_count("cols", cols), "rows": require_count("rows", rows)},
        }
        return Pty(self._http, self._commands._start(body), -1, is_new=True)

    def connect(self, id: Union[str, int], *, after: int = -1) -> Pty:
        """Connects to the terminal of a process, by its id, or by its pid while it runs.

        `after` skips output up to this `seq`.
        """
        return Pty(self._http, self._commands.connect(id), after)


class Pty:
    """A process with a terminal. Iterate over it to read its output as text.

    It reconnects after a lost connection and misses no output. The process continues without a connection.
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
        # The time of a caller of `wait` has passed.
        self._failure: Optional[DormouseError] = None
        # Started by this object, so it need not be asked whether it has ended.
        self._is_new = is_new
        self.id = command.id
        self.pid = command.pid
        # How it ended; None before.
        self.exit: Optional[PtyExit] = None

    @property
    def exit_code(self) -> Optional[int]:
        """None before it has ended."""
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
        """Returns its next output, with control sequences. None after it has ended or was disconnected."""
        while self.exit is None and not self._is_closed and self._failure is None:
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
                self._on_message(json.loads(payload))
            except DormouseError as error:
                self._drop_connection()
                if self._is_closed or self._failure is not None:
                    return None
                if not is_transient(error):
                    raise
                sleep(self._backoff.next_delay(error))
        return None

    def write(self, data: Union[str, bytes]) -> None:
        """Types `data`. Wakes the sandbox. Does not type again what a lost connection may have lost.

        Raises `conflict` if it has ended or was disconnected.
        """
        content = bytes_of("data", data)
        for start in range(0, len(content), MESSAGE_BYTES):
            socket = self._connected(is_typing=True)
            try:
                socket.send_bytes(content[start : start + MESSAGE_BYTES])
            except OSError as cause:
                self._drop_connection()
                raise self._http.lost(cause) from cause

    def resize(self, cols: int, rows: int) -> None:
        self._command.resize(cols, rows)

    def kill(self, signal: str = "SIGKILL") -> None:
        """Sends a signal to it and its process group."""
        self._command.kill(signal)

    def wait(self, *, timeout: Optional[float] = None) -> int:
        """Reads to the end and returns the exit code; `exit` has more.

        Raises `timed_out` after `timeout` seconds; the process continues.
        """
        with limited(timeout, self._fail):
            while self.read() is not None:
                pass
        failure, self._failure = self._failure, None
        if failure is not None and self.exit is None:
            raise failure
        if self.exit is None:
            # Disconnected: wait without its output.
            ended = self._command.wait(timeout=timeout)
            self.exit = PtyExit(ended.exit_code, ended.duration_ms, ended.timed_out, ended.signal)
        return self.exit.exit_code

    def disconnect(self) -> None:
        """Closes the connection. The process continues; `pty.connect(id)` connects again."""
        self._is_closed = True
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _connected(self, is_typing: bool = False) -> WebSocket:
        with self._opening:
            self._require_open()
            if self._socket is None:
                # The server ignores what is typed into the terminal of a process that has ended.
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
            raise self._closed_error("was disconnected", "`pty.connect(id)` connects to it again.")

    def _ended(self) -> DormouseError:
        return self._closed_error("has ended", "`pty.wait()` says how; `pty.create()` opens another one.")

    def _closed_error(self, why: str, hint: str) -> DormouseError:
        return error_of("conflict", f"The terminal of process {self.id} {why}", hint=hint)

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if message["type"] in ("start", "truncated"):
            self._seen = message["seq"]
        elif message["type"] == "exit":
            self.exit = decode(PtyExit, message)
            self._drop_connection()
        elif message["type"] == "error":
            raise error_from_answer(message["error"])

    def _fail(self, error: DormouseError) -> None:
        self._failure = error
        self._drop_connection()

    def _drop_connection(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.abort()
