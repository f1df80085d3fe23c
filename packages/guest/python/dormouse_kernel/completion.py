"""Completes half-typed code with the names that the context knows."""

import os
from typing import Any

from dormouse_kernel.control import Control
from dormouse_kernel.front import Front
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.limits import COMPLETION_CHARS, COMPLETION_REPEAT_S, COMPLETION_S, COMPLETIONS
from dormouse_kernel.output_streams import OutputStreams
from dormouse_kernel.time_limit import time_limit


class Completion:
    def __init__(
        self, front: Front, control: Control, streams: OutputStreams, interrupts: Interrupts
    ) -> None:
        self._front = front
        self._control = control
        self._streams = streams
        self._interrupts = interrupts

    def answer(self, message: dict[str, Any]) -> None:
        """Finding names may execute `__dir__` and properties of user code. What they print is output between runs."""
        self._streams.repair()
        self._interrupts.establish()
        self._control.wait_until_read()
        found = self._find(message["code"])
        if self._control.in_child:
            # This is a forked child that returned from user code.
            os._exit(0)
        self._interrupts.take_pending()
        self._streams.flush()
        self._control.send({"type": "answer", "request": message["request"], **found})

    def _find(self, code: str) -> dict[str, Any]:
        try:
            try:
                with time_limit(self._interrupts, COMPLETION_S, COMPLETION_REPEAT_S):
                    self._interrupts.arm()
                    return self._matches(code)
            finally:
                self._interrupts.disarm()
        except BaseException:  # noqa: BLE001 - user code may raise anything; without names there is nothing to show
            return {"matches": [], "replaces": "", "more": False}

    def _matches(self, code: str) -> dict[str, Any]:
        found, replaces = self._front.complete(code)
        texts = list(dict.fromkeys(text for text in found if len(text) <= COMPLETION_CHARS))
        return {"matches": texts[:COMPLETIONS], "replaces": replaces, "more": len(texts) > COMPLETIONS}
