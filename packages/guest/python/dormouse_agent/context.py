"""A context: a queue of runs that execute one at a time, in its kernel or in a bash of their own."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.bash_process import BashProcess
from dormouse_agent.errors import OpError, invalid
from dormouse_agent.journal import Journal
from dormouse_agent.kernel_requests import Answer
from dormouse_agent.kernel_supervisor import KernelSupervisor
from dormouse_agent.languages.language import Language
from dormouse_agent.languages.registry import BASH, BY_NAME, require_program
from dormouse_agent.reaper import exit_code_of, signal_name
from dormouse_agent.run import Run, rehearse_events
from dormouse_agent.spawn import base_environment
from dormouse_agent.text_events import TextEvents
from dormouse_agent.users import User

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent

IGNORED_INTERRUPT = (
    "the code ignored the interrupt for {grace:g} s, so the context was restarted and its variables are gone"
)
KERNEL_DIED = "{how}; the context was restarted and its variables are gone"
LARGEST_VARIABLES = "; before this run the largest variables were {largest}"


@dataclass(frozen=True)
class ContextOptions:
    # What runs without a language of their own are written in.
    language: str = "python"
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    # An interpreter other than the usual one.
    program: str | None = None


class Context:
    def __init__(self, agent: "Agent", name: str, user: User, options: ContextOptions) -> None:
        self._agent = agent
        self.name = name
        self.user = user
        self._options = options
        self.language: Language = BY_NAME[options.language]
        self._queue: deque[Run] = deque()
        self._bash: BashProcess | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._ignored_interrupt = False
        self.current: Run | None = None
        self.used = False
        self.deleted = False
        self.between_runs = Journal()
        self.kernel = KernelSupervisor(agent, self)

    # Description and environment.

    def info(self) -> dict[str, Any]:
        if self.current is not None:
            state = "busy"
        else:
            state = "idle" if self.kernel.ready else "starting"
        return {
            "context": self.name,
            "language": self._options.language,
            "user": self.user.name,
            "pid": self.kernel.pid,
            "state": state,
            "restarts": self.kernel.restarts,
        }

    def environment(self) -> dict[str, str]:
        return base_environment(self.user, self._agent.sandbox_id, self._agent.env, self._options.env)

    def start_directory(self) -> str:
        return self._options.cwd if self._options.cwd is not None else self._agent.start_directory(self.user)

    def require_program(self, env: dict[str, str]) -> str:
        """The program of the kernel. Fails when the sandbox does not have it."""
        program = self._options.program or self.language.find(env)
        if program is None:
            require_program(self.language, env)
        assert program is not None
        return program

    def language_of(self, asked: str | None) -> str:
        """The language of a run in this context. Fails when the kernel does not run it."""
        if asked is None:
            return self._options.language
        # bash runs in any context, as a program of its own unless the kernel is a bash.
        if asked not in self.language.names and asked not in BASH.names:
            raise invalid(
                "language",
                f"context {self.name!r} runs {' and '.join(self.language.names)}, not {asked}; "
                "name another context, or none",
            )
        return asked

    def update_env(self, names: list[str]) -> None:
        env = self.environment()
        self.kernel.update_env({name: env[name] for name in names}, busy=self.current is not None)

    def wake(self, names: list[str], reason: str, reseed: bool) -> None:
        env = self.environment()
        in_run = self.current is not None and self._bash is None
        self.kernel.wake({name: env[name] for name in names}, reason, reseed, in_run)

    def unsettled(self) -> list[Answer]:
        """What the kernel answers soon. During a run it does not."""
        return [] if self.current is not None else self.kernel.unanswered()

    def rehearse(self) -> list[Answer]:
        """Lets agent and kernel go through the steps of a run without a trace. What the kernel answers soon."""
        if self.current is not None or self._queue or not self.language.rehearses or not self.kernel.is_free:
            return []
        rehearse_events(self._agent.loop, self)
        return [self.kernel.rehearse()]

    async def preload(self, modules: list[str]) -> list[str]:
        """Returns the modules that could not be imported."""
        if self.current is not None or self._queue:
            raise OpError("conflict", f"context {self.name!r} has runs")
        answer = await self.kernel.preload(modules)
        failed = None if answer is None else answer.get("failed")
        if not isinstance(failed, list):
            raise OpError("conflict", f"the kernel of context {self.name!r} ended during the import")
        return [str(name) for name in failed]

    async def settle(self, gather: bool) -> None:
        """Forgets all runs, so that the context counts as unused."""
        if self.current is not None or self._queue:
            raise OpError("conflict", f"context {self.name!r} has runs")
        if await self.kernel.settle(gather) is None:
            raise OpError("conflict", f"the kernel of context {self.name!r} ended")
        self.used = False

    async def complete(self, code: str) -> dict[str, Any]:
        """Returns `matches`, what they replace at the end of the code, and whether there are more."""
        if not self.language.completes:
            raise OpError("conflict", f"context {self.name!r} runs {self._options.language}, which is not completed")
        if self.current is not None or self._queue:
            raise OpError("conflict", f"context {self.name!r} is busy with a run")
        answer = await self.kernel.complete(code)
        matches, replaces = (answer or {}).get("matches"), (answer or {}).get("replaces")
        if answer is None or not isinstance(matches, list) or not isinstance(replaces, str):
            raise OpError("conflict", f"the kernel of context {self.name!r} does not answer")
        return {"matches": [str(text) for text in matches], "replaces": replaces, "more": answer.get("more") is True}

    async def ask_between_runs(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        """What the kernel answers: nothing before it is ready. None during runs, and when no answer comes in time."""
        if self.current is not None or self._queue:
            return None
        if not self.kernel.ready:
            return {}
        return await self.kernel.ask(message, timeout_s)

    def answer(self, request: int, text: str | None) -> None:
        """Answers a question of the current run."""
        self.kernel.process.send({"type": "input", "request": request, "text": text})

    def change_user(self, user: User) -> None:
        self.user = user
        self.kernel.replace()

    # The queue.

    def enqueue(self, run: Run) -> None:
        if len(self._queue) >= limits.QUEUED_RUNS_PER_CONTEXT:
            raise OpError("limit_reached", f"context {self.name!r} has {len(self._queue)} runs waiting")
        self._agent.runs.live[run.id] = run
        self._queue.append(run)
        self._advance()

    def _advance(self) -> None:
        while self.current is None and self._queue and not self.deleted:
            if self._is_one_shot(self._queue[0]):
                self._begin_bash(self._queue.popleft())
            elif self.kernel.is_free:
                self._begin_in_kernel(self._queue.popleft())
            else:
                self.kernel.ensure_started()
                return

    def _is_one_shot(self, run: Run) -> bool:
        """Whether the run gets a bash of its own."""
        return run.language not in self.language.names

    def _begin_in_kernel(self, run: Run) -> None:
        self.current = run
        self.used = True
        kernel = self.kernel.process
        kernel.redirect(TextEvents(run.journal, "stdout"), TextEvents(run.journal, "stderr"))
        note, self.kernel.restart_note = self.kernel.restart_note, None
        message = {"type": "run", "id": run.id, "code": run.code, "language": run.language}
        # The kernel works while the rest is done here. Nothing of it is read before.
        kernel.send({**message, "input": run.answers_input})
        run.begin(self._agent.loop, note)
        run.code = ""

    def _begin_bash(self, run: Run) -> None:
        self.current = run
        self.used = True
        run.begin(self._agent.loop, None)
        bash = BashProcess(self._agent.loop, self._on_bash_exit)
        try:
            bash.start(self._agent.reaper, run.code, self.user, self.environment(), self.start_directory())
        except OpError as error:
            run.fail("BashFailed", f"bash could not be started: {error.message}")
            self._finish(127)
            return
        run.code = ""
        self._bash = bash
        bash.redirect(TextEvents(run.journal, "stdout"), TextEvents(run.journal, "stderr"))

    def _finish(self, exit_code: int, context_restarted: bool = False, signal: str | None = None) -> None:
        run = self.current
        assert run is not None
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        self.current = None
        run.finish(exit_code, context_restarted, signal)
        self._agent.runs.finished(run)
        self.kernel.send_pending_env()
        self._advance()

    # Stopping.

    def interrupt(self, run: Run) -> str:
        if run.state == "finished":
            return "finished"
        if run.state == "queued":
            self._queue.remove(run)
            run.cancel(self._agent.loop, "KeyboardInterrupt", "the run was interrupted before it began")
            self._agent.runs.finished(run)
            return "cancelled"
        if not run.interrupted and not run.timed_out:
            run.interrupted = True
            self.stop_current()
        return "interrupting"

    def stop_current(self) -> None:
        if self._bash is not None:
            self._bash.interrupt()
        elif self.current is not None and self.kernel.ready:
            # A kernel that has not begun the run yet reads this message and knows that the signal is for the run.
            self.kernel.process.send({"type": "interrupt", "id": self.current.id})
            self.kernel.process.interrupt()
            self._agent.loop.call_later(limits.INTERRUPT_NUDGE_S, self._nudge, self.current)
        self._grace = self._agent.loop.call_later(limits.INTERRUPT_GRACE_S, self._kill_current)

    def _nudge(self, run: Run) -> None:
        """Repeats a signal without effect until the run ends.

        Python runs the handler of SIGINT between two instructions. If user code enters a long system call right after
        the signal, nothing runs the handler before the call returns. Another signal ends the call early.
        """
        if self.current is run and self.kernel.ready:
            self.kernel.process.notify()
            self._agent.loop.call_later(limits.INTERRUPT_NUDGE_S, self._nudge, run)

    def _kill_current(self) -> None:
        self._grace = None
        if self._bash is not None:
            self._bash.kill()
        elif self.kernel.ready:
            self._ignored_interrupt = True
            self.kernel.process.kill()

    def delete(self) -> None:
        self.deleted = True
        message = f"context {self.name!r} was deleted"
        self.between_runs.close()
        if self._bash is not None:
            self._bash.kill()
            self._release_bash()
        else:
            self._redirect_between_runs()
        if self.current is not None:
            self.current.interrupted = True
            self.current.fail("ContextDeleted", message)
            self._finish(130)
        while self._queue:
            run = self._queue.popleft()
            run.cancel(self._agent.loop, "ContextDeleted", message)
            self._agent.runs.finished(run)
        self.kernel.retire()

    # Messages and exits of the kernel and of bash.

    def on_kernel_free(self) -> None:
        self._advance()

    def on_kernel_message(self, message: dict[str, Any]) -> None:
        kind, run = message["type"], self.current
        if kind == "result":
            self._on_result(run if self._bash is None else None, message)
        elif run is None or self._bash is not None:
            return
        elif kind == "input" and run.answers_input:
            run.ask(int(message["request"]), str(message["prompt"])[: limits.PROMPT_CHARS], message["hidden"] is True)
        elif kind == "error":
            run.error(str(message["name"]), str(message["message"]), str(message["traceback"]))
        elif kind == "done":
            code = int(message["code"])
            self._redirect_between_runs(drained=True)
            self._finish(code & 0xFF)

    def _on_result(self, run: Run | None, message: dict[str, Any]) -> None:
        data = message["data"]
        assert isinstance(data, dict)
        if run is not None:
            main = {"main": True} if message.get("main") is True else {}
            run.journal.append("result", data=data, **main)
        elif isinstance(text := data.get("text/plain"), str) and not self.between_runs.closed:
            # A thread displayed this between two runs, so there is no run to show it in.
            self.between_runs.append("stdout", data=text + "\n", between=True)

    def on_kernel_death(self, code: int, why: str, largest_variables: str, asked_for: bool) -> None:
        ignored, self._ignored_interrupt = self._ignored_interrupt, False
        run = self.current
        if ignored:
            why = IGNORED_INTERRUPT.format(grace=limits.INTERRUPT_GRACE_S)
        else:
            why = KERNEL_DIED.format(how=why)
        if ignored or not asked_for:
            self.kernel.restart_note = why
        if run is None or self._bash is not None:
            return
        self._redirect_between_runs()
        name = "ContextRestarted" if ignored else "KernelDied"
        if largest_variables and not ignored and signal_name(code) == "SIGKILL":
            why += LARGEST_VARIABLES.format(largest=largest_variables)
        run.fail(name, why)
        # Only the run has ended: queued runs begin when the new kernel is ready.
        ended_by = None if ignored else signal_name(code)
        # Code 0 would look like success.
        self._finish(exit_code_of(code) or 1, context_restarted=True, signal=ended_by)

    def on_kernel_unavailable(self, why: str) -> None:
        waiting = [run for run in self._queue if not self._is_one_shot(run)]
        for run in waiting:
            self._queue.remove(run)
            run.begin(self._agent.loop, None)
            run.fail("KernelDied", f"{why}; {limits.KERNEL_START_ATTEMPTS} attempts failed")
            run.finish(1)
            self._agent.runs.finished(run)
        self._advance()

    def _on_bash_exit(self, code: int) -> None:
        if self._bash is not None:
            self._release_bash()
            self._finish(exit_code_of(code), signal=signal_name(code))

    def _release_bash(self) -> None:
        assert self._bash is not None
        self._bash.redirect(*self.targets_between_runs())
        self._bash.linger(self._agent.lingering)
        self._bash = None

    def _redirect_between_runs(self, drained: bool = False) -> None:
        self.kernel.redirect(*self.targets_between_runs(), drained)

    def targets_between_runs(self) -> tuple[TextEvents, TextEvents]:
        """Where stdout and stderr go while no run is active."""
        journal = self.between_runs
        return TextEvents(journal, "stdout", between_runs=True), TextEvents(journal, "stderr", between_runs=True)
