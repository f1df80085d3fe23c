"""Keeps one kernel alive for a context: starts it, replaces a dead one, rests when none starts."""

import asyncio
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.errors import OpError
from dormouse_agent.kernel_death import describe_death, oom_kills
from dormouse_agent.kernel_process import KernelProcess
from dormouse_agent.kernel_questions import KernelQuestions
from dormouse_agent.text_lane import TextLane

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent
    from dormouse_agent.context import Context

DISTRUSTED = "the kernel was ended because something else wrote to its control socket"


class KernelKeeper:
    def __init__(self, agent: "Agent", context: "Context") -> None:
        self._agent = agent
        self._context = context
        self._process: KernelProcess | None = None
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None
        self._oom_kills: int | None = None
        self._pending_env: dict[str, str] = {}
        # Whether a wake that the kernel has yet to hear of wants new seeds; None without such a wake.
        self._pending_reseed: bool | None = None
        self._questions = KernelQuestions(agent.loop, context.on_kernel_free)
        self._retired = False
        self._replacing = False
        self.ready = False
        self.restarts = 0
        # Why the next run meets a fresh kernel.
        self.restart_note: str | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def process(self) -> KernelProcess:
        assert self._process is not None and self.ready
        return self._process

    @property
    def free(self) -> bool:
        """Whether a run may begin: what the kernel does between runs has its own journal."""
        return self.ready and not self._questions.open

    def want(self) -> None:
        """A run waits for the kernel. Starts one unless one is on its way."""
        if self._process is None and self._timer is None and not self._retired:
            delay = limits.KERNEL_RETRY_LAST_S if self._failures >= limits.KERNEL_START_ATTEMPTS else 0
            self._timer = self._agent.loop.call_later(delay, self._start)

    def update_env(self, env: dict[str, str], busy: bool) -> None:
        self._pending_env.update(env)
        if not busy:
            self.send_pending_env()

    def send_pending_env(self) -> None:
        if self._pending_env and self.ready:
            self.process.send({"type": "env", "env": self._pending_env})
            self._pending_env = {}

    def wake(self, env: dict[str, str], reason: str, reseed: bool, in_run: bool) -> None:
        """The kernel takes it up at once, its hooks at the end of its run."""
        self._pending_env.update(env)
        if self.ready:
            self._send_wake(reason, reseed)
            if in_run:
                self.process.nudge()
        else:
            # It may have drawn its seed already, but has no hooks yet.
            self._pending_reseed = reseed or self._pending_reseed is True

    def _send_wake(self, reason: str, reseed: bool) -> None:
        message = {"type": "wake", "reason": reason, "reseed": reseed, "env": self._pending_env}
        self._questions.ask(self.process, message, limits.KERNEL_ANSWER_S)
        self._pending_env = {}
        self._pending_reseed = None

    async def preload(self, modules: list[str]) -> dict[str, Any] | None:
        """None when the kernel ends, or none can be started."""
        self.want()
        while not self.ready:
            if self._process is None and self._timer is None:
                return None
            await asyncio.sleep(limits.KERNEL_LOOK_S)
        return await self._questions.ask(self.process, {"type": "preload", "modules": modules})

    def replace(self) -> None:
        """A new kernel because its user has changed; nothing of value is lost with the old one."""
        self._replacing = True
        self.ready = False
        if self._process is not None:
            self._process.kill()
        else:
            self.want()

    def retire(self) -> None:
        self._retired = True
        self.ready = False
        self._cancel_timer()
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        self._timer = None
        self._replacing = False
        context = self._context
        self._oom_kills = oom_kills()
        self._pending_env = {}
        self._pending_reseed = None
        process = KernelProcess(self._agent.loop, self)
        try:
            process.start(self._agent.reaper, context.user, context.environment(), context.start_directory())
        except OpError as error:
            self._failed(f"the kernel could not be started: {error.message}")
            return
        self._process = process
        process.lanes(TextLane(context.between, "stdout", True), TextLane(context.between, "stderr", True))
        self._timer = self._agent.loop.call_later(limits.KERNEL_START_S, process.kill)

    def on_kernel_message(self, message: dict[str, Any]) -> None:
        if self._replacing or self._retired:
            return
        if message["type"] == "ready" and not self.ready:
            self._cancel_timer()
            self._failures = 0
            self.ready = True
            if self._pending_reseed is not None:
                self._send_wake("create", self._pending_reseed)
            self.send_pending_env()
            if self.free:
                self._context.on_kernel_free()
        elif message["type"] == "answer":
            self._questions.answered(message)
        else:
            self._context.on_kernel_message(message)

    def on_kernel_exit(self, code: int) -> None:
        process = self._process
        assert process is not None
        was_ready, self.ready = self.ready, False
        self._cancel_timer()
        self._questions.give_up()
        why = DISTRUSTED if process.distrusted else describe_death(code, self._oom_kills)
        if was_ready:
            self._context.on_kernel_death(code, why, asked_for=process.killed)
        self._process = None
        self._linger(process)
        if self._retired:
            return
        if self._replacing:
            self._start()
        elif was_ready:
            self.restarts += 1
            self._start()
        else:
            self._failed(f"{why} while it was starting")

    def lanes(self, stdout: TextLane, stderr: TextLane) -> None:
        if self._process is not None:
            self._process.lanes(stdout, stderr)

    def _linger(self, process: KernelProcess) -> None:
        between = self._context.between
        process.lanes(TextLane(between, "stdout", True), TextLane(between, "stderr", True))
        self._agent.lingering.keep(process.stdout)
        self._agent.lingering.keep(process.stderr)

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self._failures < limits.KERNEL_START_ATTEMPTS:
            delay = limits.KERNEL_RETRY_FIRST_S * 2**self._failures
            self._timer = self._agent.loop.call_later(delay, self._start)
        else:
            # The next run that asks for a kernel makes the next attempt.
            self._context.on_kernel_unavailable(why)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
