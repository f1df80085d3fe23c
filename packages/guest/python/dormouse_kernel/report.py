"""Exceptions as plain Python shows them, with the frames of user code only."""

import os
import sys
import traceback
from dataclasses import dataclass

from dormouse_kernel.bounded_text import bound_text
from dormouse_kernel.limits import ERROR_MESSAGE_BYTES, TRACEBACK_BYTES

OWN_DIRECTORIES: list[str] = [os.path.dirname(os.path.abspath(__file__)) + os.sep]
CELL_PREFIX = "<cell "


@dataclass(frozen=True)
class Report:
    name: str
    message: str
    traceback: str


def report_of(error: BaseException) -> Report:
    # Formatting deep recursions must not itself recurse to death, and str() of the error is user code.
    try:
        shown = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
        _keep_user_frames(shown)
        text = "".join(shown.format())
    except Exception as failure:  # noqa: BLE001 - anything may be raised by an exception's own methods
        text = f"{type(error).__name__}: <its traceback could not be shown: {type(failure).__name__}>\n"
    message = bound_text(_message(error), ERROR_MESSAGE_BYTES)
    return Report(type(error).__name__, message, bound_text(text, TRACEBACK_BYTES))


def remember(error: BaseException) -> None:
    """For pdb.pm() and %debug, as the interactive interpreter does."""
    sys.last_exc = sys.last_value = error
    sys.last_type = type(error)
    sys.last_traceback = error.__traceback__


def hide_directory(path: str) -> None:
    OWN_DIRECTORIES.append(path.rstrip(os.sep) + os.sep)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - as above
        return "<exception str() failed>"


def _keep_user_frames(shown: traceback.TracebackException) -> None:
    seen: set[int] = set()
    todo: list[traceback.TracebackException | None] = [shown]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        todo += [one.__cause__, one.__context__, *(one.exceptions or ())]
        stack = one.stack
        # A cell is run through our own code and, when it awaits, through asyncio: all that comes above it.
        cells = [index for index, frame in enumerate(stack) if frame.filename.startswith(CELL_PREFIX)]
        if stack and _is_hidden(stack[0].filename):
            del stack[: cells[0] if cells else len(stack)]
        stack[:] = [frame for frame in stack if not _is_hidden(frame.filename)]


def _is_hidden(filename: str) -> bool:
    return filename.startswith(tuple(OWN_DIRECTORIES)) or filename.startswith("<decorator-gen")
