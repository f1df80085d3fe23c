"""Runs the functions of dormouse.on_resume and dormouse.on_fork, between runs."""

import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dormouse_kernel.control import Control
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.limits import HOOK_AGAIN_S, HOOK_S
from dormouse_kernel.report import report_of
from dormouse_kernel.streams import Lanes
from dormouse_kernel.user_loop import UserLoop
from dormouse_kernel.user_module import registered


class HookRunner:
    def __init__(self, control: Control, lanes: Lanes, interrupts: Interrupts, loop: UserLoop) -> None:
        self._control = control
        self._lanes = lanes
        self._interrupts = interrupts
        self._loop = loop

    def run(self, kinds: list[str], errors: list[BaseException]) -> None:
        """One that fails is reported and does not stop the others; `errors` have happened before."""
        self._lanes.repair()
        self._interrupts.establish()
        # What is written from here on comes behind the end of the run before.
        self._control.wait_taken()
        for error in errors:
            _report("a generator of random numbers could not be seeded anew", error)
        for kind in kinds:
            for hook in registered(kind):
                self._run_one(kind, hook)
        self._loop.make_current()
        self._lanes.flush()

    def _run_one(self, kind: str, hook: Callable[[], Any]) -> None:
        name = getattr(hook, "__qualname__", type(hook).__name__)
        try:
            try:
                with self._time_limit():
                    self._interrupts.arm()
                    self._call(hook)
            finally:
                self._interrupts.disarm()
        except KeyboardInterrupt as error:
            _report(f"the function {name} of dormouse.{kind} was interrupted after {HOOK_S:g} s", error)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the hook's
            _report(f"the function {name} of dormouse.{kind} failed", error)
        if self._control.in_child:
            # A fork that came back from the hook has nothing more to do here.
            self._lanes.flush()
            os._exit(0)
        self._interrupts.take_pending()

    def _call(self, hook: Callable[[], Any]) -> None:
        value = self._loop.context.run(hook)
        if inspect.iscoroutine(value):
            self._loop.run(value)

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Borrows the one timer of the process; an alarm of user code that falls due comes afterwards."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self._interrupts.deliver()

        handler = signal.signal(signal.SIGALRM, interrupt)
        started = time.monotonic()
        left_s, every_s = signal.setitimer(signal.ITIMER_REAL, HOOK_S, HOOK_AGAIN_S)
        try:
            yield
        finally:
            # Disarmed first: an interrupt in here would leave the timer behind.
            self._interrupts.disarm()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
            if left_s:
                rest_s = max(left_s - (time.monotonic() - started), 0.001)
                signal.setitimer(signal.ITIMER_REAL, rest_s, every_s)


def _report(what: str, error: BaseException) -> None:
    print(f"dormouse: {what}\n{report_of(error).traceback}", end="", file=sys.stderr)
