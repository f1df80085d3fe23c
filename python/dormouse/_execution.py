"""A finished run, its events, and how events become a run."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields
from typing import Any, Mapping, Optional

from ._json import decode
from ._bounded_text import BoundedText
from ._errors import RunFailedError, RunTimeoutError
from ._result import Result


@dataclass(frozen=True)
class Event:
    """One event of a run or a process. `type` says which other fields are set.

    `start`: `run_id`, `context` and `language`, or `process_id` and `pid`. `stdout`, `stderr`: `data` is text.
    `result`: `data` is a Result. `input`: `prompt`, and `hidden` for passwords. `error`: `name`, `message`,
    `traceback`. `truncated`: `bytes` that were left out. `exit`, the last event: `code`.
    """

    seq: int
    type: str
    data: Any = None
    code: Optional[int] = None
    run_id: Optional[str] = None
    context: Optional[str] = None
    language: Optional[str] = None
    process_id: Optional[str] = None
    pid: Optional[int] = None
    name: Optional[str] = None
    message: Optional[str] = None
    traceback: Optional[str] = None
    main: Optional[bool] = None
    # Written between runs, by a thread or process that an earlier run started.
    between: Optional[bool] = None
    events: Optional[int] = None
    bytes: Optional[int] = None
    duration_ms: Optional[float] = None
    timed_out: Optional[bool] = None
    interrupted: Optional[bool] = None
    context_restarted: Any = None
    signal: Optional[str] = None
    prompt: Optional[str] = None
    # What is typed must not be shown.
    hidden: Optional[bool] = None
    out_of_memory: Optional[str] = None

    @property
    def exit_code(self) -> Optional[int]:
        return self.code

    def __repr__(self) -> str:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return f"Event({', '.join(f'{name}={value!r}' for name, value in values if value is not None)})"


def read_event(answer: Mapping[str, Any]) -> Event:
    kind = answer["type"]
    if kind == "exit":
        return decode(Event, {**answer, "code": answer["exitCode"]})
    if kind == "result":
        return decode(Event, {**answer, "data": Result(answer["data"], bool(answer.get("main")))})
    return decode(Event, answer)


@dataclass(frozen=True)
class RunError:
    """The exception that the code raised."""

    name: str
    message: str
    traceback: str


@dataclass(frozen=True)
class Truncated:
    """Bytes that were left out."""

    stdout_bytes: int = 0
    stderr_bytes: int = 0
    result_bytes: int = 0


@dataclass(frozen=True)
class Execution:
    """The outcome of a run. An exception in the code is in `error`; `check()` raises it."""

    run_id: str
    stdout: str = ""
    stderr: str = ""
    exit_code: int = -1
    results: list[Result] = field(default_factory=list)
    error: Optional[RunError] = None
    duration_ms: float = 0
    timed_out: bool = False
    interrupted: bool = False
    # Why the kernel was replaced before or during this run.
    context_restarted: Optional[str] = None
    # Linux killed a process of this run because the sandbox reached its memory limit: the figures, and how to raise it.
    out_of_memory: Optional[str] = None
    truncated: Optional[Truncated] = None

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def result(self) -> Optional[Result]:
        """The value of the last line."""
        return next((result for result in reversed(self.results) if result.is_main), None)

    @property
    def text(self) -> Optional[str]:
        """The value of the last line as text."""
        return None if self.result is None else self.result.text

    def check(self) -> Execution:
        """Returns the execution. Raises `run_failed` if the exit code is not 0, `run_timed_out` after a time-out."""
        if self.ok:
            return self
        if self.error:
            reason = f"{self.error.name}: {self.error.message}"
        else:
            reason = self.out_of_memory or f"exit code {self.exit_code}"
        hint = "`error.execution` has its output."
        if self.timed_out:
            failed: RunFailedError = RunTimeoutError("run_timed_out", reason, hint=hint)
        else:
            failed = RunFailedError("run_failed", reason, hint=hint)
        failed.execution = self
        raise failed

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown = self.results[-1]._repr_mimebundle_(include, exclude) if self.results else {}
        text = "".join([self.stdout, self.stderr, self.text or ""])
        return {**shown, "text/plain": text or repr(self)}

    def _ipython_display_(self) -> None:
        """Displays it as if the notebook itself had run the code."""
        from IPython.display import display  # type: ignore

        if self.stdout:
            print(self.stdout, end="")
        if self.stderr:
            print(self.stderr, end="", file=sys.stderr)
        for result in self.results:
            display(result)


# An Execution keeps at most this much of results: about two hundred plots.
RESULTS_MAX_BYTES = 64 * 1024**2


class RunCollector:
    """Collects the events of a run into an Execution of bounded size, as the server does."""

    def __init__(self) -> None:
        self._stdout = BoundedText()
        self._stderr = BoundedText()
        self._results: list[Result] = []
        self._result_bytes = 0
        self._lost_result_bytes = 0
        self._known: dict[str, Any] = {}

    def add(self, event: Event) -> None:
        if event.type == "stdout":
            self._stdout.add(event.data)
        elif event.type == "stderr":
            self._stderr.add(event.data)
        elif event.type == "result":
            self._add_result(event.data)
        elif event.type == "truncated":
            self._stdout.lose(event.bytes or 0)
        elif event.type == "start":
            self._known.update(run_id=event.run_id, context_restarted=event.context_restarted)
        elif event.type == "error":
            error = RunError(event.name or "", event.message or "", event.traceback or "")
            self._known.update(error=error)
        elif event.type == "exit":
            self._exit(event)

    def execution(self) -> Execution:
        stdout, stderr = self._stdout.text(), self._stderr.text()
        lost = Truncated(self._stdout.lost_bytes, self._stderr.lost_bytes, self._lost_result_bytes)
        truncated = None if lost == Truncated() else lost
        known: dict[str, Any] = {"run_id": "", **self._known}
        return Execution(stdout=stdout, stderr=stderr, results=self._results, truncated=truncated, **known)

    def _add_result(self, result: Result) -> None:
        size = sum(len(value) if isinstance(value, str) else len(repr(value)) for value in result.values())
        if self._result_bytes + size > RESULTS_MAX_BYTES:
            self._lost_result_bytes += size
            return
        self._result_bytes += size
        self._results.append(result)

    def _exit(self, event: Event) -> None:
        self._known.update(
            exit_code=event.code,
            duration_ms=event.duration_ms,
            timed_out=bool(event.timed_out),
            interrupted=bool(event.interrupted),
            out_of_memory=event.out_of_memory,
        )
        if event.context_restarted:
            error = self._known.get("error")
            gone = "The kernel was replaced; its variables are gone."
            self._known.update(context_restarted=error.message if error else gone)
