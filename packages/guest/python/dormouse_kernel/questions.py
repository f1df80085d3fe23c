"""input() and getpass() ask the caller of the run, if that caller answers. Otherwise they fail at once."""

from __future__ import annotations

import builtins
import getpass
import os
import select
import sys
import threading
import time
from typing import Any, NoReturn

from dormouse_kernel.control import Control
from dormouse_kernel.interrupts import Interrupts
from dormouse_kernel.limits import ANSWER_WAIT_S, PROMPT_CHARS
from dormouse_kernel.output_streams import OutputStreams
from dormouse_kernel.wakes import Wakes

NO_KEYBOARD = (
    "this run has no keyboard, so {what} cannot read an answer. Put the value into the code, a variable "
    "or a file, or run the code in `dormouse repl` or with `on_input` of an SDK. A program that needs a "
    "terminal can be started as a process with a PTY"
)
OTHER_THREAD = "only the main thread of a run can call {what}"
NO_ANSWER = "no answer came for {hours:g} h"


class Questions:
    def __init__(
        self, control: Control, streams: OutputStreams, interrupts: Interrupts, wakes: Wakes
    ) -> None:
        self._control = control
        self._streams = streams
        self._interrupts = interrupts
        self._wakes = wakes
        self._last_request = 0
        # Whether the caller of the current run answers questions.
        self.are_answered = False

    def install(self) -> None:
        def input(prompt: object = "", /) -> str:
            return self._ask("input()", prompt, hidden=False)

        def ask_password(prompt: object = "Password: ", *args: object, **kwargs: object) -> str:
            return self._ask("getpass()", prompt, hidden=True)

        ask_password.__name__ = ask_password.__qualname__ = "getpass"
        builtins.input = input
        getpass.getpass = getpass.unix_getpass = ask_password
        if "PYTHONBREAKPOINT" not in os.environ:
            sys.breakpointhook = _refuse_breakpoint

    def _ask(self, what: str, prompt: object, hidden: bool) -> str:
        if not self.are_answered or self._control.in_child:
            raise EOFError(NO_KEYBOARD.format(what=what))
        if threading.current_thread() is not threading.main_thread():
            raise EOFError(OTHER_THREAD.format(what=what))
        self._last_request += 1
        self._streams.flush()
        text = str(prompt)[:PROMPT_CHARS]
        self._control.send({"type": "input", "request": self._last_request, "prompt": text, "hidden": hidden})
        answer = self._wait(self._last_request)
        if answer is None:
            raise EOFError(NO_ANSWER.format(hours=ANSWER_WAIT_S / 3600))
        if answer["text"] is None:
            raise EOFError("the caller of the run ended the input")
        return str(answer["text"])

    def _wait(self, request: int) -> dict[str, Any] | None:
        """Returns None if no answer comes. An interrupt raises KeyboardInterrupt."""
        deadline = time.monotonic() + ANSWER_WAIT_S
        try:
            while (left_s := deadline - time.monotonic()) > 0:
                with self._interrupts.deferred():
                    self._wakes.take_waiting()
                    # From here on, the handler of a wake reads nothing: what it read, `select` could not wait for.
                    self._wakes.leave_run()
                    for message in self._control.find_waiting("input"):
                        self._control.discard(message)
                        if message["request"] == request:
                            return message
                    if self._control.closed:
                        return None
                select.select([self._control], [], [], left_s)
            return None
        finally:
            self._wakes.enter_run()


def _refuse_breakpoint(*args: object, **kwargs: object) -> NoReturn:
    raise EOFError(NO_KEYBOARD.format(what="breakpoint()"))
