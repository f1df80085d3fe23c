"""One run: its code until it begins, its journal and its end."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from dormouse_agent.finished_items import FinishedItems, JournalBudget
from dormouse_agent.journal import Journal
from dormouse_agent.limits import FINISHED_RUNS, FIRST_MOMENT_S

if TYPE_CHECKING:
    from dormouse_agent.context import Context


class Run:
    def __init__(
        self,
        run_id: str,
        context: "Context",
        language: str,
        code: str,
        timeout_ms: int | None,
        answers_input: bool = False,
    ) -> None:
        self.id = run_id
        self.context = context
        self.language = language
        self.code = code
        self.timeout_ms = timeout_ms
        self.answers_input = answers_input
        # The `seq` of the open question, and the number that the kernel gave it.
        self._question: tuple[int, int] | None = None
        self.journal = Journal()
        self.state = "queued"
        self.exit_code: int | None = None
        self.started_at_ms: int | None = None
        self.timed_out = False
        self.interrupted = False
        self._started_monotonic = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._first_moment: asyncio.TimerHandle | None = None
        self._has_error = False

    def begin(self, loop: asyncio.AbstractEventLoop, context_restarted: str | None) -> None:
        self.state = "running"
        self.started_at_ms = time.time_ns() // 1_000_000
        self._started_monotonic = time.monotonic()
        # Most runs end at once: then `start`, output and `exit` reach the host together.
        self.journal.held = True
        self._first_moment = loop.call_later(FIRST_MOMENT_S, self.journal.release)
        why = {"contextRestarted": context_restarted} if context_restarted else {}
        self.journal.append("start", runId=self.id, context=self.context.name, language=self.language, **why)
        if self.timeout_ms is not None:
            self._timer = loop.call_later(self.timeout_ms / 1000, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        if self.state == "running" and not self.interrupted:
            self.timed_out = True
            self.context.stop_current()

    def ask(self, request: int, prompt: str, hidden: bool) -> None:
        """Reports that the code waits for an answer to input()."""
        self._question = (self.journal.next_seq, request)
        self.journal.append("input", prompt=prompt, **({"hidden": True} if hidden else {}))

    def take_question(self, seq: int) -> int | None:
        """The kernel's number of the open question, which is then closed. None unless `seq` is that of the question."""
        if self._question is None or self._question[0] != seq:
            return None
        request = self._question[1]
        self._question = None
        return request

    def error(self, name: str, message: str, traceback: str) -> None:
        """Reports an exception of user code. The kernel has written its traceback to stderr."""
        if self.timed_out:
            # What the code raised says how it was stopped, not why.
            self._report_time_out(traceback=traceback + "\n")
        else:
            self._report(name, message, traceback)

    def fail(self, name: str, message: str) -> None:
        """Reports a failure that the agent found, on stderr as well."""
        if self.timed_out:
            self._report_time_out(detail=f"; {message}")
        else:
            shown = f"{name}: {message}\n"
            self.journal.append("stderr", data=shown)
            self._report(name, message, shown)

    def _report_time_out(self, traceback: str = "", detail: str = "") -> None:
        assert self.timeout_ms is not None
        name = "RunTimeout"
        message = f"the run was interrupted after its time-out of {self.timeout_ms / 1000:g} s{detail}"
        shown = f"{name}: {message}\n"
        self.journal.append("stderr", data=shown)
        self._report(name, message, traceback + shown)

    def _report(self, name: str, message: str, traceback: str) -> None:
        self._has_error = True
        self.journal.append("error", name=name, message=message, traceback=traceback)

    def finish(self, exit_code: int, context_restarted: bool = False, signal: str | None = None) -> None:
        for timer in (self._timer, self._first_moment):
            if timer is not None:
                timer.cancel()
        self._timer = self._first_moment = None
        marks: dict[str, Any] = {}
        if self.timed_out:
            if not self._has_error:
                self._report_time_out()
            exit_code = 124
            marks["timedOut"] = True
        elif self.interrupted:
            exit_code = 130
            marks["interrupted"] = True
        if context_restarted:
            marks["contextRestarted"] = True
        if signal is not None:
            marks["signal"] = signal
        self.state = "finished"
        self._question = None
        self.exit_code = exit_code
        self.code = ""
        duration_ms = round((time.monotonic() - self._started_monotonic) * 1000, 3)
        self.journal.append("exit", exitCode=exit_code, durationMs=duration_ms, **marks)
        self.journal.close()

    def cancel(self, loop: asyncio.AbstractEventLoop, name: str, message: str) -> None:
        """Ends a run that has not begun, as interrupted."""
        self.begin(loop, None)
        self.interrupted = True
        self.fail(name, message)
        self.finish(130)


def rehearse_events(loop: asyncio.AbstractEventLoop, context: "Context") -> None:
    """Makes and ends a run that nothing follows and no list holds."""
    run = Run("rehearsal", context, "python", "", None)
    run.begin(loop, None)
    run.journal.append("stdout", data="\n")
    run.finish(0)


class Runs:
    """All runs that the host can ask about: queued, running, and the last finished ones."""

    def __init__(self, budget: JournalBudget) -> None:
        self.live: dict[str, Run] = {}
        self._finished: FinishedItems[str, Run] = FinishedItems(budget, FINISHED_RUNS)

    def find(self, run_id: str) -> Run | None:
        return self.live.get(run_id) or self._finished.find(run_id)

    def finished(self, run: Run) -> None:
        del self.live[run.id]
        self._finished.add(run.id, run)

    def forget_finished(self) -> None:
        for run in self._finished.all():
            self._finished.drop(run.id)
