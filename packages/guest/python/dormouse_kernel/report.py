"""Formats exceptions as plain Python does, with the frames of user code only."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from importlib.util import find_spec

from dormouse_kernel.bounded_text import bound_text
from dormouse_kernel.limits import ERROR_MESSAGE_BYTES, TRACEBACK_BYTES

# Tracebacks leave out the frames of files in these directories.
OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
IPYTHON = find_spec("IPython")
HIDDEN_DIRECTORIES = (
    f"{OWN_DIRECTORY}/",
    *((f"{os.path.dirname(IPYTHON.origin)}/",) if IPYTHON is not None and IPYTHON.origin else ()),
)
# Python before 3.10 keeps more of what it shows in memory.
COMPACT: dict[str, bool] = {"compact": True} if sys.version_info >= (3, 10) else {}
CELL_PREFIX = "<cell "


@dataclass(frozen=True)
class Report:
    name: str
    message: str
    traceback: str


def report_of(error: BaseException) -> Report:
    # Formatting a deep recursion may fail itself, and str() of the error is user code.
    try:
        shown = traceback.TracebackException(type(error), error, error.__traceback__, **COMPACT)
        _keep_user_frames(shown)
        text = "".join(shown.format())
    except Exception as failure:  # noqa: BLE001 - methods of an exception may raise anything
        text = f"{type(error).__name__}: <its traceback could not be shown: {type(failure).__name__}>\n"
    message = bound_text(_message(error), ERROR_MESSAGE_BYTES)
    return Report(type(error).__name__, message, bound_text(text, TRACEBACK_BYTES))


def remember(error: BaseException) -> None:
    """Sets sys.last_exc and the like for pdb.pm() and %debug, as the interactive interpreter does."""
    sys.last_exc = sys.last_value = error
    sys.last_type = type(error)
    sys.last_traceback = error.__traceback__


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
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
        stack = one.stack
        # Frames above the cell are ours, or asyncio's when the cell awaits.
        cells = [index for index, frame in enumerate(stack) if frame.filename.startswith(CELL_PREFIX)]
        if stack and _is_hidden(stack[0].filename):
            del stack[: cells[0] if cells else len(stack)]
        stack[:] = [frame for frame in stack if not _is_hidden(frame.filename)]


def _is_hidden(filename: str) -> bool:
    return filename.startswith(HIDDEN_DIRECTORIES) or filename.startswith("<decorator-gen")
