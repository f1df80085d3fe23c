"""Runs the functions of dormouse.on_resume and dormouse.on_fork, between runs."""

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from dormouse_kernel.control import Control
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.limits import HOOK_REPEAT_S, HOOK_S
from dormouse_kernel.report import report_of
from dormouse_kernel.output_streams import OutputStreams
from dormouse_kernel.time_limit import time_limit
from dormouse_kernel.user_loop import UserLoop
from dormouse_kernel.user_module import UserModule


class HookRunner:
    def __init__(
        self,
        control: Control,
        streams: OutputStreams,
        interrupts: Interrupts,
        loop: UserLoop,
        user_module: UserModule,
    ) -> None:
        self._control = control
        self._streams = streams
        self._interrupts = interrupts
        self._loop = loop
        self._user_module = user_module

    def run(self, kinds: list[str], errors: list[BaseException]) -> None:
        """Runs all hooks of `kinds`. Reports hooks that fail, and `errors`, which happened before."""
        self._streams.repair()
        self._interrupts.establish()
        # Output from here on must come after the end of the previous run.
        self._control.wait_until_read()
        for error in errors:
            _report("a random number generator could not be reseeded", error)
        for kind in kinds:
            for hook in self._user_module.hooks(kind):
                self._run_one(kind, hook)
        self._loop.make_current()
        self._streams.flush()

    def _run_one(self, kind: str, hook: Callable[[], Any]) -> None:
        name = getattr(hook, "__qualname__", type(hook).__name__)
        try:
            try:
                with time_limit(self._interrupts, HOOK_S, HOOK_REPEAT_S):
                    self._interrupts.arm()
                    self._call(hook)
            finally:
                self._interrupts.disarm()
        except KeyboardInterrupt as error:
            _report(f"the function {name} of dormouse.{kind} was interrupted after {HOOK_S:g} s", error)
        except BaseException as error:  # noqa: BLE001 - a hook may raise anything
            _report(f"the function {name} of dormouse.{kind} failed", error)
        if self._control.in_child:
            # This is a forked child that returned from the hook.
            self._streams.flush()
            os._exit(0)
        self._interrupts.take_pending()

    def _call(self, hook: Callable[[], Any]) -> None:
        value = self._loop.context.run(hook)
        if inspect.iscoroutine(value):
            self._loop.run(value)


def _report(what: str, error: BaseException) -> None:
    print(f"dormouse: {what}\n{report_of(error).traceback}", end="", file=sys.stderr)
