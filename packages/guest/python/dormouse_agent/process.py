"""One process that the host started: its journal, its input and its end."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.errors import OpError
from dormouse_agent.journal import Journal
from dormouse_agent.output_pipe import LingeringPipes, OutputPipe
from dormouse_agent.process_id import new_process_id
from dormouse_agent.process_input import ProcessInput
from dormouse_agent.reaper import Reaper, exit_code_of, signal_name
from dormouse_agent.spawn import Spawn, spawn
from dormouse_agent.terminal import open_terminal, resize_terminal, take_control
from dormouse_agent.text_events import TextEvents

if TYPE_CHECKING:
    from dormouse_agent.process_relay import ProcessRelay


class StartedProcess:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, command: str, on_end: Callable[["StartedProcess"], None]
    ) -> None:
        self.id = new_process_id()
        self._loop = loop
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None
        self._pipes: list[OutputPipe] = []
        self._timed_out = False
        self._terminal: int | None = None
        self._is_connected = False
        is_long = len(command) > limits.COMMAND_SHOWN_CHARS
        self.command = command[: limits.COMMAND_SHOWN_CHARS] + "…" if is_long else command
        self.journal = Journal()
        self.input: ProcessInput | None = None
        self.exit_code: int | None = None
        # The exit code, and the name of the signal that ended the process, if one did.
        self.ended: asyncio.Future[tuple[int, str | None]] = loop.create_future()
        # Of a connected process: the descriptors of its output, by stream. The relay reads and closes them.
        self.outputs: dict[str, int] = {}
        self.relay: ProcessRelay | None = None
        self.started_at_ms = 0

    def start(self, reaper: Reaper, what: Spawn, stdin: bool, pty: dict[str, int] | None) -> None:
        self.user = what.user.name
        child = self._spawn_in_terminal(what, pty) if pty else self._spawn_on_pipes(what, stdin)
        self.pid = child.pid
        self.started_at_ms = time.time_ns() // 1_000_000
        self._started_monotonic = time.monotonic()
        self.journal.append("start", processId=self.id, pid=self.pid)
        reaper.watch(child, self._on_exit)

    def start_connected(self, reaper: Reaper, what: Spawn, pty: dict[str, int] | None) -> None:
        """Leaves the output out of the journal: the relay reads it from `outputs`."""
        self._is_connected = True
        self.start(reaper, what, True, pty)

    def _spawn_on_pipes(self, what: Spawn, stdin: bool) -> subprocess.Popen[bytes]:
        opened: list[int] = []
        try:
            for _ in range(3 if stdin else 2):
                opened += os.pipe2(os.O_CLOEXEC)
            what.stdout, what.stderr = opened[1], opened[3]
            if stdin:
                what.stdin = opened[4]
            child = spawn(what)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        for fd in (opened[1], opened[3], *opened[4:5]):
            os.close(fd)
        self._listen(opened[0], "stdout")
        self._listen(opened[2], "stderr")
        if stdin:
            self.input = ProcessInput(self._loop, opened[5], terminal=False)
        return child

    def _spawn_in_terminal(self, what: Spawn, pty: dict[str, int]) -> subprocess.Popen[bytes]:
        ours, theirs = open_terminal(what.user, pty["cols"], pty["rows"])
        what.stdin = what.stdout = what.stderr = theirs
        what.in_child = take_control
        try:
            child = spawn(what)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._terminal = ours
        # Two descriptors, because the loop watches one for reading and the other for writing.
        self.input = ProcessInput(self._loop, os.dup(ours), terminal=True)
        self._listen(ours, "stdout")
        return child

    def _listen(self, fd: int, kind: str) -> None:
        if self._is_connected:
            os.set_blocking(fd, False)
            self.outputs[kind] = fd
            return
        pipe = OutputPipe(self._loop, fd)
        pipe.target = TextEvents(self.journal, kind)
        self._pipes.append(pipe)

    def limit_time(self, timeout_ms: int) -> None:
        self._timer = self._loop.call_later(timeout_ms / 1000, self._time_out)

    def _time_out(self) -> None:
        self._timed_out = True
        self.signal(signal.SIGTERM)
        self._timer = self._loop.call_later(limits.INTERRUPT_GRACE_S, self.signal, signal.SIGKILL)

    def signal(self, number: int) -> None:
        self._require_alive()
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            # It has ended; the reaper has not reported it yet.
            pass

    def tell_copied(self) -> None:
        """Programs can handle SIGURG to seed their random generators again. Linux drops it for all others."""
        if self.exit_code is None:
            self.signal(signal.SIGURG)

    def resize(self, cols: int, rows: int) -> None:
        self._require_alive()
        is_open = bool(self.outputs) if self._is_connected else self._pipes[0].fd >= 0
        if self._terminal is None or not is_open:
            raise OpError("conflict", f"process {self.id} has no PTY")
        resize_terminal(self._terminal, cols, rows)

    @property
    def has_terminal(self) -> bool:
        return self._terminal is not None

    def get_input(self) -> ProcessInput:
        self._require_alive()
        if self.input is None:
            raise OpError("conflict", f"process {self.id} was started without stdin")
        return self.input

    def _require_alive(self) -> None:
        if self.exit_code is not None:
            raise OpError("conflict", f"process {self.id} has ended")

    def _on_exit(self, code: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.input is not None:
            self.input.close()
        for pipe in self._pipes:
            pipe.switch_to(None)
        self.exit_code = 124 if self._timed_out else exit_code_of(code)
        marks: dict[str, Any] = {"timedOut": True} if self._timed_out else {}
        if (name := signal_name(code)) is not None:
            marks["signal"] = name
        duration_ms = round((time.monotonic() - self._started_monotonic) * 1000, 3)
        self.journal.append("exit", exitCode=self.exit_code, durationMs=duration_ms, **marks)
        self.journal.close()
        self.ended.set_result((self.exit_code, name))
        self._on_end(self)

    def linger(self, pipes: LingeringPipes) -> None:
        """Keeps the pipes open, so that children can still write. Their output is discarded."""
        for pipe in self._pipes:
            if self.has_terminal:
                pipe.close()
            else:
                pipes.keep(pipe)

    def info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "processId": self.id,
            "pid": self.pid,
            "command": self.command,
            "user": self.user,
            "state": "running" if self.exit_code is None else "exited",
            "startedAt": self.started_at_ms,
            "pty": self.has_terminal,
        }
        if self.exit_code is not None:
            info["exitCode"] = self.exit_code
        return info
