"""Keeps one kernel running for a context: starts it, replaces a dead one, waits after failed starts."""

import asyncio
from typing import TYPE_CHECKING, Any

from dormouse_agent import limits
from dormouse_agent.errors import OpError
from dormouse_agent.kernel_death import describe_death, describe_variables, oom_kills
from dormouse_agent.kernel_process import KernelProcess
from dormouse_agent.kernel_requests import Answer, KernelRequests
from dormouse_agent.text_events import TextEvents

if TYPE_CHECKING:
    from dormouse_agent.agent import Agent
    from dormouse_agent.context import Context

UNTRUSTED = "the kernel was ended because something else wrote to its control socket"


class KernelSupervisor:
    def __init__(self, agent: "Agent", context: "Context") -> None:
        self._agent = agent
        self._context = context
        self._process: KernelProcess | None = None
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None
        self._oom_kills: int | None = None
        self._largest_variables = ""
        # Why the kernel cannot work here, in its own words.
        self._unusable: str | None = None
        self._pending_env: dict[str, str] = {}
        # A wake waits for the kernel to be ready: whether it asks for new seeds. None when no wake waits.
        self._pending_reseed: bool | None = None
        self._requests = KernelRequests(agent.loop, context.on_kernel_free)
        self._retired = False
        self._replacing = False
        self.ready = False
        self.restarts = 0
        # Why the next run gets a new kernel.
        self.restart_note: str | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def process(self) -> KernelProcess:
        assert self._process is not None and self.ready
        return self._process

    @property
    def is_free(self) -> bool:
        """Whether a run may begin. Output of requests between runs must not get into its journal."""
        return self.ready and not self._requests.any_open

    def unanswered(self) -> list[Answer]:
        return self._requests.unanswered()

    def ensure_started(self) -> None:
        """Starts a kernel unless one is running or starting."""
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
        """The kernel updates itself at once, and runs its hooks after the current run."""
        self._pending_env.update(env)
        if self.ready:
            self._send_wake(reason, reseed)
            if in_run:
                self.process.notify()
        else:
            # The kernel may have seeded its generators already, but it has no hooks yet.
            self._pending_reseed = reseed or self._pending_reseed is True

    def _send_wake(self, reason: str, reseed: bool) -> None:
        message = {"type": "wake", "reason": reason, "reseed": reseed, "env": self._pending_env}
        self._requests.send(self.process, message, limits.KERNEL_ANSWER_S)
        self._pending_env = {}
        self._pending_reseed = None

    async def preload(self, modules: list[str]) -> dict[str, Any] | None:
        """Returns None when the kernel ends, or cannot be started."""
        if not await self._until_ready():
            return None
        return await self._requests.send(self.process, {"type": "preload", "modules": modules})

    async def settle(self, gather: bool) -> dict[str, Any] | None:
        """Returns None when the kernel ends, or cannot be started."""
        if not await self._until_ready():
            return None
        return await self._requests.send(self.process, {"type": "settle", "gather": gather})

    def rehearse(self) -> Answer:
        """Pre: the kernel is free."""
        return self._requests.send(self.process, {"type": "rehearse"}, limits.SETTLE_S)

    async def complete(self, code: str) -> dict[str, Any] | None:
        """Returns None when the kernel ends, cannot be started, or does not answer in time."""
        if not await self._until_ready():
            return None
        return await self._requests.send(self.process, {"type": "complete", "code": code}, limits.COMPLETE_S)

    async def ask(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        """Pre: the kernel is ready. Returns None when it ends, or does not answer in time."""
        return await self._requests.send(self.process, message, timeout_s)

    async def _until_ready(self) -> bool:
        self.ensure_started()
        while not self.ready:
            if self._process is None and self._timer is None:
                return False
            await asyncio.sleep(limits.KERNEL_POLL_S)
        return True

    def replace(self) -> None:
        """Starts a new kernel for another user. The old one has run nothing."""
        self._replacing = True
        self.ready = False
        if self._process is not None:
            self._process.kill()
        else:
            self.ensure_started()

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
        self._largest_variables = ""
        self._unusable = None
        self._pending_env = {}
        self._pending_reseed = None
        process = KernelProcess(self._agent.loop, self)
        env = context.environment()
        try:
            program = context.require_program(env)
            process.start(
                self._agent.reaper, context.language, program, context.user, env, context.start_directory()
            )
        except OpError as error:
            self._failed(f"the kernel could not be started: {error.message}")
            return
        self._process = process
        process.redirect(*context.targets_between_runs())
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
            if self.is_free:
                self._context.on_kernel_free()
        elif message["type"] == "answer":
            self._requests.on_answer(message)
        elif message["type"] == "unusable":
            self._unusable = str(message["why"])
        elif message["type"] == "variables":
            self._largest_variables = describe_variables(message)
        else:
            self._context.on_kernel_message(message)

    def on_kernel_exit(self, code: int) -> None:
        process = self._process
        assert process is not None
        was_ready, self.ready = self.ready, False
        self._cancel_timer()
        self._requests.on_kernel_exit()
        why = UNTRUSTED if process.untrusted else describe_death(code, self._oom_kills)
        if was_ready:
            self._context.on_kernel_death(code, why, self._largest_variables, asked_for=process.killed)
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
            self._failed(self._unusable or f"{why} while it was starting")

    def redirect(self, stdout: TextEvents, stderr: TextEvents, drained: bool = False) -> None:
        if self._process is not None:
            self._process.redirect(stdout, stderr, drained)

    def _linger(self, process: KernelProcess) -> None:
        process.redirect(*self._context.targets_between_runs())
        self._agent.lingering.keep(process.stdout)
        self._agent.lingering.keep(process.stderr)

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self._failures < limits.KERNEL_START_ATTEMPTS:
            delay = limits.KERNEL_RETRY_FIRST_S * 2**self._failures
            self._timer = self._agent.loop.call_later(delay, self._start)
        else:
            # The next run that needs a kernel starts the next attempt.
            self._context.on_kernel_unavailable(why)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
