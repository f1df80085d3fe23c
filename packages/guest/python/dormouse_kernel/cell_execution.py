"""Executes the compiled code of a cell, in the event loop where it needs one."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from dormouse_kernel.limits import TRANSFORM_CHARS
from dormouse_kernel.user_loop import UserLoop

# Top-level code that calls one of these needs a running event loop, even if it does not await.
LOOP_NAMES = frozenset({"create_task", "ensure_future", "get_running_loop"})
LOOP_RUNNERS = frozenset({"run", "run_until_complete", "run_forever"})


def execute(compiled: CodeType, namespace: dict[str, Any], loop: UserLoop) -> Any:
    if compiled.co_flags & inspect.CO_COROUTINE:
        return loop.run(eval(compiled, namespace))
    names = compiled.co_names
    if not LOOP_NAMES.isdisjoint(names) and LOOP_RUNNERS.isdisjoint(names):
        return loop.run(_in_loop(compiled, namespace))
    return loop.context.run(eval, compiled, namespace)


async def _in_loop(compiled: CodeType, namespace: dict[str, Any]) -> Any:
    return eval(compiled, namespace)


@contextmanager
def large_without_gc(code: str) -> Iterator[None]:
    """Pauses the garbage collector for large code: it would scan millions of syntax nodes repeatedly for nothing."""
    if len(code) <= TRANSFORM_CHARS or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def may_hold_magics(code: str) -> bool:
    return any(line.lstrip()[:1] in ("%", "!", "?") for line in code.splitlines()) or code[:1].isspace()


def as_syntax_error(error: Exception) -> SyntaxError:
    return error if isinstance(error, SyntaxError) else SyntaxError(str(error))
