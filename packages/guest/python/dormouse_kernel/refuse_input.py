"""Makes input(), getpass() and breakpoint() fail at once: a run has no keyboard."""

import builtins
import getpass
import os
import sys
from typing import Any, NoReturn

MESSAGE = (
    "a run has no keyboard, so {what} cannot read an answer. Put the value into the code, a variable "
    "or a file. A program that needs a terminal can be started as a process with a PTY"
)


def refuse_input() -> None:
    builtins.input = _refusal("input()")
    getpass.getpass = getpass.unix_getpass = _refusal("getpass()")
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _refusal("breakpoint()")


def _refusal(what: str) -> Any:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise EOFError(MESSAGE.format(what=what))

    refuse.__name__ = refuse.__qualname__ = what.removesuffix("()")
    return refuse
