"""How a command ended, and what it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from ._bounded_text import BoundedText
from ._errors import RunFailedError, RunTimeoutError
from ._execution import Event, Truncated


@dataclass(frozen=True)
class CommandResult:
    process_id: str
    pid: int
    stdout: str = ""
    stderr: str = ""
    exit_code: int = -1
    duration_ms: float = 0
    timed_out: bool = False
    # The signal that ended it, such as `SIGKILL`.
    signal: Optional[str] = None
    # Linux killed it because the sandbox reached its memory limit: the figures, and how to raise the limit.
    out_of_memory: Optional[str] = None
    truncated: Optional[Truncated] = None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def check(self) -> CommandResult:
        """Returns the result. Raises `run_failed` if the exit code is not 0, `run_timed_out` after a time-out."""
        if self.ok:
            return self
        failed = RunFailedError("run_failed", self.out_of_memory or f"exit code {self.exit_code}: {self.stderr[-500:]}")
        if self.timed_out:
            message = f"The command was ended after {self.duration_ms / 1000:.3g} s, because its time-out had passed."
            failed = RunTimeoutError("run_timed_out", message)
        failed.execution = self
        raise failed


@dataclass(frozen=True)
class PtyExit:
    """How a terminal ended."""

    exit_code: int
    duration_ms: float
    timed_out: bool = False
    # The signal that ended it, such as `SIGKILL`.
    signal: Optional[str] = None


class CommandCollector:
    """Collects the events of a process into a result of bounded size."""

    def __init__(self, process_id: str, pid: int) -> None:
        self._process_id = process_id
        self._pid = pid
        self._stdout = BoundedText()
        self._stderr = BoundedText()
        self._end: dict[str, Any] = {}

    def add(self, event: Event) -> None:
        if event.type == "stdout":
            self._stdout.add(event.data)
        elif event.type == "stderr":
            self._stderr.add(event.data)
        elif event.type == "truncated":
            self._stdout.lose(event.bytes or 0)
        elif event.type == "exit":
            self._end = {
                "exit_code": event.code,
                "duration_ms": event.duration_ms,
                "timed_out": bool(event.timed_out),
                "signal": event.signal,
                "out_of_memory": event.out_of_memory,
            }

    def result(self) -> CommandResult:
        stdout, stderr = self._stdout.text(), self._stderr.text()
        lost = Truncated(self._stdout.lost_bytes, self._stderr.lost_bytes)
        truncated = None if lost == Truncated() else lost
        return CommandResult(self._process_id, self._pid, stdout, stderr, truncated=truncated, **self._end)
