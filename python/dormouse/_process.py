"""How a command ended, and what it wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from ._bounded_text import BoundedText
from ._errors import RunFailedError
from ._execution import Event, Truncated


@dataclass(frozen=True)
class CommandResult:
    pid: int
    stdout: str = ""
    stderr: str = ""
    exit_code: int = -1
    duration_ms: float = 0
    timed_out: bool = False
    # The signal that ended it, such as `SIGKILL`.
    signal: Optional[str] = None
    truncated: Optional[Truncated] = None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def check(self) -> CommandResult:
        """Returns the result. Raises `run_failed` if the exit code is not 0."""
        if self.ok:
            return self
        failed = RunFailedError("run_failed", f"exit code {self.exit_code}: {self.stderr[-500:]}")
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

    def __init__(self, pid: int) -> None:
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
            }

    def result(self) -> CommandResult:
        stdout, stderr = self._stdout.text(), self._stderr.text()
        lost = Truncated(self._stdout.lost_bytes, self._stderr.lost_bytes)
        truncated = None if lost == Truncated() else lost
        return CommandResult(self._pid, stdout, stderr, truncated=truncated, **self._end)
