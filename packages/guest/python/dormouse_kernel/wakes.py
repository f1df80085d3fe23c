"""agent.wake, as a kernel meets it: identity and seeds at once, hooks when no run is going on."""

import signal
from types import FrameType
from typing import Any

from dormouse_kernel.control import Control
from dormouse_kernel.hooks import HookRunner
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.reseed import Reseeder
from dormouse_kernel.user_module import update_environment

HOOKS_OF_REASON = {"resume": "on_resume", "rollback": "on_resume", "fork": "on_fork"}


class Wakes:
    """A message on the control socket; SIGURG when a run keeps the kernel from reading it.

    The handler reads messages and sets values. It writes nothing, for it may have come between two parts of
    a write, and runs no hooks, for the code it interrupts may hold any lock.
    """

    def __init__(self, control: Control, interrupts: Interrupts, hooks: HookRunner) -> None:
        self._control = control
        self._interrupts = interrupts
        self._hooks = hooks
        self._reseeder = Reseeder()
        self._in_run = False
        self._pending = False
        self._kinds: list[str] = []
        self._questions: list[int] = []

    def establish(self) -> None:
        signal.signal(signal.SIGURG, self._on_signal)

    def enter_run(self) -> None:
        self._in_run = True
        if self._pending:
            self._take_waiting()

    def leave_run(self) -> None:
        self._in_run = False

    def take(self, message: dict[str, Any]) -> None:
        update_environment(message["env"])
        self._reseeder.reseed(generators=message["reseed"])
        kind = HOOKS_OF_REASON.get(message["reason"])
        # Several in one run are one to the hooks.
        if kind is not None and kind not in self._kinds:
            self._kinds.append(kind)
        if message["question"] not in self._questions:
            self._questions.append(message["question"])

    def finish(self) -> None:
        """Pre: no run is going on."""
        if not self._questions:
            return
        kinds, self._kinds = self._kinds, []
        questions, self._questions = self._questions, []
        self._reseeder.finish()
        errors, self._reseeder.errors = self._reseeder.errors, []
        self._hooks.run(kinds, errors)
        for question in questions:
            self._control.send({"type": "answer", "question": question})

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Outside of a run the message is read in its turn; reading it here would take it from under a read.
        if self._in_run:
            self._take_waiting()
        else:
            self._pending = True

    def _take_waiting(self) -> None:
        with self._interrupts.deferred():
            # Again for one that came meanwhile; not for ever, so that under a rain of them the run goes on.
            for _ in range(2):
                self._in_run = self._pending = False
                try:
                    for message in self._control.waiting_of("wake"):
                        self.take(message)
                        self._control.discard(message)
                except RecursionError:
                    # The code that was interrupted is at the limit; the message is taken up behind the run.
                    pass
                self._in_run = True
                if not self._pending:
                    return


def restore_in_child() -> None:
    signal.signal(signal.SIGURG, signal.SIG_DFL)
