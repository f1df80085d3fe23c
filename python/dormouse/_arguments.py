"""Checks of arguments. The errors name the argument and the value."""

from __future__ import annotations

import math
import operator
import re
from typing import Any, Optional, Union

from ._errors import DormouseError, error_of

# Bytes, or text such as `"4GiB"`, `"512MB"` and `"2g"`.
Size = Union[int, str]

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-zA-Z]*)")
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}{rest}": 1024**power for power, letter in enumerate("kmgt", 1) for rest in ("", "ib")},
}


def invalid_argument(name: str, problem: str, *, hint: str = "") -> DormouseError:
    return error_of("invalid_argument", f"{name}: {problem}", hint=hint, details={"field": name})


def require_count(name: str, value: Any, least: int = 1) -> int:
    """Accepts what is a whole number: also that of another library, and `4.0`."""
    whole = _whole(value)
    if whole is None or whole < least:
        raise invalid_argument(name, f"must be a whole number from {least} (saw {value!r})")
    return whole


def optional_count(name: str, value: Any) -> Optional[int]:
    return None if value is None else require_count(name, value, 0)


def optional_amount(name: str, value: Any) -> Optional[float]:
    """A number of something that can be divided, such as CPUs."""
    if value is None:
        return None
    number = _finite(value)
    if number is None or number < 0:
        raise invalid_argument(name, f"must be a number from 0 (saw {value!r})")
    return number


def milliseconds(name: str, seconds: Any, *, hint: str = "") -> Optional[int]:
    """Rounded up: a short time does not become zero."""
    if seconds is None:
        return None
    number = _finite(seconds)
    if number is None or number < 0:
        raise invalid_argument(name, f"must be seconds, from 0 (saw {seconds!r})", hint=hint)
    return math.ceil(number * 1000)


def parse_size(name: str, size: Optional[Size]) -> Optional[int]:
    """`MB` is 1000² bytes; `MiB` and `m` are 1024²."""
    if size is None:
        return None
    if not isinstance(size, str):
        return require_count(name, size, 0)
    match = _SIZE.fullmatch(size.strip())
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        hint = 'Give bytes, or a size such as "512MB" or "4GiB".'
        raise invalid_argument(name, f"is not a size (saw {size!r})", hint=hint)
    return round(float(match[1]) * unit)


def bytes_of(name: str, value: Any) -> bytes:
    """The bytes of text, or of an object with a buffer."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    try:
        return memoryview(value).tobytes()
    except TypeError:
        raise invalid_argument(name, f"must be text or bytes (saw {type(value).__name__})") from None


def _whole(value: Any) -> Optional[int]:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _finite(value: Any) -> Optional[float]:
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
