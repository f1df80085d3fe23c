"""The text of a value, without calling `__repr__` or `__str__` of user code."""

from __future__ import annotations

import datetime
import types
from itertools import islice
from typing import Any

from dormouse_kernel.inspection.known_types import (
    base_of,
    is_class,
    is_numpy_scalar,
    is_one_of,
    library_name,
    library_of,
    type_name,
)

TEXT_CHARS = 120
ELEMENTS = 12
DEPTH = 3
# Longer numbers take quadratic time to write.
INT_BITS = 4096
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}"}


def text_of(value: Any, chars: int = TEXT_CHARS, depth: int = DEPTH) -> str:
    """At most `chars` characters. What is not known is shown as its type."""
    text = _text(value, chars, depth)
    return text if len(text) <= chars else text[: chars - 1] + "…"


def cell_of(value: Any, chars: int = 200) -> str | None:
    """As in a table: strings without quotes, None for what is missing."""
    if type(value) is str and len(value) <= chars:
        return value
    if value is None or is_missing(value):
        return None
    if base_of(type(value)) is str:
        text = str.__getitem__(value, slice(chars + 1))
        return text if len(text) <= chars else text[: chars - 1] + "…"
    return text_of(value, chars)


def is_missing(value: Any) -> bool:
    kind = type(value)
    if kind is float or (is_numpy_scalar(kind) and kind.__name__.startswith("float")):
        return bool(value != value)
    return value is library_name("pandas", "NaT") is not None or value is library_name("pandas", "NA") is not None


def _text(value: Any, chars: int, depth: int) -> str:
    kind = type(value)
    if value is None or value is Ellipsis or value is NotImplemented:
        return repr(value)
    if is_numpy_scalar(kind):
        return _numpy_scalar(value, chars, depth)
    if value is library_name("pandas", "NaT"):
        return "NaT"
    if value is library_name("pandas", "NA"):
        return "<NA>"
    base = base_of(kind)
    if base is not None:
        text = _builtin(value, base, chars, depth)
        return text if base is kind else f"{type_name(kind)}({text})"
    if is_one_of(kind, FUNCTIONS):
        return f"function {value.__name__}"
    if is_class(value):
        return f"class {type_name(value)}"
    if is_one_of(kind, TIMES):
        return _time(value)
    library = library_of(kind)
    if library in ("pandas.Timestamp", "pandas.Timedelta"):
        return str(value.asm8)
    return _other(value, kind) or f"<{type_name(kind)}>"


def _builtin(value: Any, base: type, chars: int, depth: int) -> str:
    if base is bool:
        return "True" if value else "False"
    if base is int:
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= INT_BITS else f"number of {bits} bits"
    if base in (float, complex):
        return str(base.__repr__(value))
    if base in (str, bytes, bytearray):
        return str(base.__repr__(base.__getitem__(value, slice(chars))))
    return _container(value, base, chars, depth)


def _container(value: Any, base: Any, chars: int, depth: int) -> str:
    count = base.__len__(value)
    opening, closing = BRACKETS.get(base, "[]")
    if depth == 0 or count == 0:
        return f"{opening}{'…' if count else ''}{closing}"
    each = max(8, chars // 2)
    try:
        if base is dict:
            items = [
                f"{_text(key, each, 0)}: {text_of(item, each, depth - 1)}"
                for key, item in islice(dict.items(value), ELEMENTS)
            ]
        else:
            items = [text_of(item, each, depth - 1) for item in islice(base.__iter__(value), ELEMENTS)]
    except RuntimeError:
        # A thread changed it meanwhile.
        return f"{opening}…{closing}"
    more = ", …" if count > ELEMENTS else ""
    return f"{opening}{', '.join(items)}{more}{closing}"


def _numpy_scalar(value: Any, chars: int, depth: int) -> str:
    if type(value).__name__ in ("datetime64", "timedelta64", "longdouble", "clongdouble"):
        return str(value)
    return text_of(value.item(), chars, depth)


TIMES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)


def _time(value: Any) -> str:
    zone = getattr(value, "tzinfo", None)
    # A zone of user code would compute the offset.
    if zone is not None and type(zone) is not datetime.timezone:
        value = value.replace(tzinfo=None)
    return str(value)


def _other(value: Any, kind: type) -> str | None:
    """Types of the standard library whose text is made of their own fields."""
    if kind is range:
        parts = (value.start, value.stop, value.step)
        return f"range{parts}" if all(type(part) is int for part in parts) else None
    for library, name in STANDARD:
        if kind is library_name(library, name):
            return str(value)
    return None


STANDARD = (("decimal", "Decimal"), ("uuid", "UUID"), ("pathlib", "PosixPath"), ("fractions", "Fraction"))
