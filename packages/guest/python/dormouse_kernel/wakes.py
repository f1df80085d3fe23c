"""agent.wake in a kernel: updates identity and seeds at once, and runs hooks when no run is active."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from dormouse_kernel.control import Control
from dormouse_kernel.hooks import HookRunner
from dormouse_kernel.interrupts import Interrupts, set_handler
from dormouse_kernel.output_streams import OutputStreams
from dormouse_kernel.reseed import Reseeder
from dormouse_kernel.user_module import UserModule

HOOKS_OF_REASON = {"resume": "on_resume", "rollback": "on_resume", "fork": "on_fork"}


class Wakes:
    """Wakes come as messages on the control socket. During a run SIGURG makes the kernel read them.

    The signal handler reads messages and sets values. It runs no hooks, because the interrupted code may hold a lock
    that a hook needs. It also flushes a line without its end, for which the kernel sends itself the signal.
    """

    def __init__(
        self,
        control: Control,
        streams: OutputStreams,
        interrupts: Interrupts,
        hooks: HookRunner,
        user_module: UserModule,
    ) -> None:
        self._control = control
        self._streams = streams
        self._interrupts = interrupts
        self._hooks = hooks
        self._user_module = user_module
        self._reseeder = Reseeder()
        self._in_run = False
        self._pending = False
        self._kinds: list[str] = []
        self._requests: list[int] = []

    def establish(self) -> None:
        set_handler(signal.SIGURG, self._on_signal)

    def enter_run(self) -> None:
        self._in_run = True
        if self._pending:
            self.take_waiting()

    def leave_run(self) -> None:
        self._in_run = False

    def take(self, message: dict[str, Any]) -> None:
        self._user_module.update_environment(message["env"])
        self._reseeder.reseed(generators=message["reseed"])
        kind = HOOKS_OF_REASON.get(message["reason"])
        # Hooks run once for several wakes in one run.
        if kind is not None and kind not in self._kinds:
            self._kinds.append(kind)
        if message["request"] not in self._requests:
            self._requests.append(message["request"])

    def finish(self) -> None:
        """Runs hooks and answers the agent. Pre: no run is active."""
        if not self._requests:
            return
        kinds, self._kinds = self._kinds, []
        requests, self._requests = self._requests, []
        self._reseeder.finish()
        errors, self._reseeder.errors = self._reseeder.errors, []
        self._hooks.run(kinds, errors)
        for request in requests:
            self._control.send({"type": "answer", "request": request})

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        try:
            self._streams.flush_partial_line(frame)
        except RecursionError:
            # The interrupted code is at the recursion limit. The next signal, or the end of the run, flushes.
            pass
        # Outside a run the main loop reads the message; reading it here would disturb a read in progress.
        if self._in_run:
            self.take_waiting()
        else:
            self._pending = True

    def take_waiting(self) -> None:
        """Takes wakes that have come since the run began. Pre: a run is active."""
        with self._interrupts.deferred():
            # A second time for a wake that came meanwhile. Not forever, so that the run continues under many wakes.
            for _ in range(2):
                self._in_run = self._pending = False
                try:
                    for message in self._control.find_waiting("wake"):
                        self.take(message)
                        self._control.discard(message)
                except RecursionError:
                    # The interrupted code is at the recursion limit. The message is read after the run.
                    pass
                self._in_run = True
                if not self._pending:
                    return


def restore_in_child() -> None:
    signal.signal(signal.SIGURG, signal.SIG_DFL)
