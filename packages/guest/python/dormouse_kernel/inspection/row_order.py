"""Sorts and filters the rows of a table. Compares only values of known types."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from dormouse_kernel.inspection.known_types import base_of, is_numpy_scalar, library_name
from dormouse_kernel.inspection.safe_text import cell_of, is_missing, text_of
from dormouse_kernel.inspection.tables import ROWS, Column, Table

WORK_S = 3.0
# How many rows are compared between two looks at the clock.
STEP = 4096
# Kinds of numpy's types that it sorts without Python: booleans, numbers, times, fixed text.
PLAIN_KINDS = frozenset("biufmMSU")


class TooMuch(Exception):
    """The table is too large to be sorted or filtered on the side."""


def order_rows(
    table: Table, filters: Sequence[tuple[int, str]], sort: int | None, descending: bool
) -> Sequence[int]:
    """The positions of the rows to show, in this order."""
    if not filters and sort is None:
        return range(table.row_count)
    if table.row_count > ROWS:
        raise TooMuch(f"a table of {table.row_count} rows is sorted and filtered in code; at most {ROWS} are here")
    clock = _Clock()
    positions: Sequence[int] = range(table.row_count)
    for index, expression in filters:
        positions = _filter(table.column(index), positions, expression, clock)
    return positions if sort is None else _sort(table.column(sort), positions, descending, clock)


class _Clock:
    def __init__(self) -> None:
        self._deadline = time.thread_time() + WORK_S

    def check(self) -> None:
        if time.thread_time() > self._deadline:
            raise TooMuch(f"sorting and filtering takes longer than {WORK_S:g} s; do it in code")


def _filter(column: Column, positions: Sequence[int], expression: str, clock: _Clock) -> Sequence[int]:
    fast = _filter_array(column.array, positions, expression)
    if fast is not None:
        return fast
    matches = _matcher(expression)
    found = []
    at = column.value
    for count, position in enumerate(positions):
        if count % STEP == 0:
            clock.check()
        if matches(at(position)):
            found.append(position)
    return found


def _filter_array(array: Any, positions: Sequence[int], expression: str) -> Sequence[int] | None:
    """Compares all numbers at once; None where that is not possible."""
    compare = next((name for sign, name in COMPARISONS if expression.startswith(sign)), None)
    asarray = library_name("numpy", "asarray")
    if array is None or asarray is None or compare is None or array.dtype.kind not in "biuf":
        return None
    try:
        number = float(expression.lstrip("<>="))
    except ValueError:
        return None
    chosen = asarray(positions, dtype="int64")
    return chosen[library_name("numpy", compare)(array[chosen], number)]  # type: ignore[no-any-return]


# The longer sign first.
COMPARISONS = ((">=", "greater_equal"), ("<=", "less_equal"), (">", "greater"), ("<", "less"))


def _matcher(expression: str) -> Callable[[Any], bool]:
    """`>5`, `<=5`, `=text`, `!=text`, or a part of the text, in any case."""
    sign = next((sign for sign in SIGNS if expression.startswith(sign)), None)
    if sign in ("=", "!="):
        text = expression[len(sign) :].strip()
        return lambda value: ((cell_of(value) or "") == text) == (sign == "=")
    if sign is not None:
        return _comparison(sign, expression[len(sign) :].strip())
    part = expression.lower()
    return lambda value: part in (cell_of(value) or "").lower()


SIGNS = ("!=", "=", *(sign for sign, _ in COMPARISONS))


def _comparison(sign: str, wanted: str) -> Callable[[Any], bool]:
    try:
        number: float | None = float(wanted)
    except ValueError:
        number = None

    def matches(value: Any) -> bool:
        key = _sort_key(value)
        if number is not None:
            if key[0] != NUMBER:
                return False
            found, limit = key[1], number
        else:
            if key[0] not in (TEXT, OTHER):
                return False
            found, limit = key[1], wanted
        if sign == ">":
            return bool(found > limit)
        if sign == "<":
            return bool(found < limit)
        return bool(found >= limit) if sign == ">=" else bool(found <= limit)

    return matches


def _sort(column: Column, positions: Sequence[int], descending: bool, clock: _Clock) -> Sequence[int]:
    fast = _sort_array(column.array, positions, descending)
    if fast is not None:
        return fast
    keys = []
    missing = []
    at = column.value
    for count, position in enumerate(positions):
        if count % STEP == 0:
            clock.check()
        key = _sort_key(at(position))
        if key[0] == MISSING:
            missing.append(position)
        else:
            keys.append((key, position))
    keys.sort(key=lambda pair: pair[0], reverse=descending)
    return [position for _, position in keys] + missing


def _sort_array(array: Any, positions: Sequence[int], descending: bool) -> Sequence[int] | None:
    argsort, asarray = library_name("numpy", "argsort"), library_name("numpy", "asarray")
    if array is None or argsort is None or array.dtype.kind not in PLAIN_KINDS:
        return None
    chosen = asarray(positions, dtype="int64")
    values = array[chosen]
    order = argsort(values, kind="stable")
    # numpy puts what is missing last, in both directions so here.
    missing = int((values != values).sum()) if array.dtype.kind in "fmM" else 0
    if descending:
        present = len(order) - missing
        order = library_name("numpy", "concatenate")([order[:present][::-1], order[present:]])
    return chosen[order]  # type: ignore[no-any-return]


NUMBER, TEXT, OTHER, MISSING = range(4)


def _sort_key(value: Any) -> tuple[int, Any]:
    """Of known types only, so that no comparison runs user code."""
    if type(value) is str:
        return (TEXT, value)
    if value is None or is_missing(value):
        return (MISSING, 0)
    if is_numpy_scalar(type(value)):
        item = value.item()
        return _sort_key(item) if type(item) is not type(value) else (OTHER, str(value))
    base = base_of(type(value))
    if base is bool or base is int:
        return (NUMBER, int.__int__(value))
    if base is float:
        return (NUMBER, float.__float__(value))
    if base is str:
        return (TEXT, str.__str__(value))
    return (OTHER, text_of(value))
