"""Declarative checks of request fields. The whole request is checked before anything changes."""

import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from dormouse_agent import limits
from dormouse_agent.errors import OpError, invalid

MISSING: Any = object()
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}\$?"
USER = re.compile(f"{NAME}(:{NAME})?")


class Field(Protocol):
    default: Any

    def check(self, name: str, value: Any) -> Any: ...


def parse(fields: dict[str, Field], request: dict[str, Any]) -> dict[str, Any]:
    for name in request:
        if name not in fields and name != "op":
            raise invalid(str(name)[:64], "unknown field")
    args = {}
    for name, expected in fields.items():
        value = request.get(name, MISSING)
        if value is MISSING:
            if expected.default is MISSING:
                raise invalid(name, "is required")
            args[name] = expected.default
        else:
            args[name] = expected.check(name, value)
    return args


def _text(name: str, value: Any, max_bytes: int) -> str:
    if not isinstance(value, str):
        raise invalid(name, f"must be a string, got {_seen(value)}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise invalid(name, "holds a lone surrogate") from None
    if size > max_bytes:
        raise invalid(name, f"is {size} bytes, at most {max_bytes} are allowed")
    return value


def _whole(name: str, value: Any, low: int, high: int) -> int:
    # In Python bool is a subclass of int, but in JSON `true` is not a number.
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(name, f"must be a whole number, got {_seen(value)}")
    if not low <= value <= high:
        raise invalid(name, f"must be from {low} to {high}, got {value}")
    return value


def _seen(value: Any) -> str:
    return {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )


@dataclass(frozen=True)
class Text:
    pattern: re.Pattern[str] | None = None
    default: Any = MISSING
    max_bytes: int = limits.PATH_BYTES
    nul: bool = False

    def check(self, name: str, value: Any) -> str:
        text = _text(name, value, self.max_bytes)
        if self.pattern is not None and not self.pattern.fullmatch(text):
            raise invalid(name, f"must match {self.pattern.pattern}, got {text[:80]!r}")
        if not self.nul and "\0" in text:
            raise invalid(name, "holds a NUL character")
        return text


@dataclass(frozen=True)
class PathText(Text):
    def check(self, name: str, value: Any) -> str:
        path = super().check(name, value)
        if not path:
            raise invalid(name, "is empty")
        return path


@dataclass(frozen=True)
class Whole:
    low: int
    high: int
    default: Any = MISSING

    def check(self, name: str, value: Any) -> int:
        return _whole(name, value, self.low, self.high)


@dataclass(frozen=True)
class Flag:
    default: Any = MISSING

    def check(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise invalid(name, f"must be true or false, got {_seen(value)}")
        return value


@dataclass(frozen=True)
class Choice:
    values: tuple[str, ...]
    default: Any = MISSING

    def check(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            raise invalid(name, f"must be one of {', '.join(self.values)}")
        return value


@dataclass(frozen=True)
class Environment:
    default: Any = MISSING

    def check(self, name: str, value: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise invalid(name, f"must be an object, got {_seen(value)}")
        if len(value) > limits.ENV_ENTRIES:
            raise invalid(name, f"has {len(value)} entries, at most {limits.ENV_ENTRIES} are allowed")
        for key, text in value.items():
            _text(name, key, 256)
            if not key or "=" in key or "\0" in key:
                raise invalid(name, f"{key[:80]!r} is not a name for a variable")
            if "\0" in _text(f"{name}.{key}", text, limits.ENV_BYTES):
                raise invalid(f"{name}.{key}", "holds a NUL character")
        return value


@dataclass(frozen=True)
class Arguments:
    default: Any = MISSING

    def check(self, name: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not 1 <= len(value) <= limits.ARGUMENTS:
            raise invalid(name, f"must be an array of 1 to {limits.ARGUMENTS} strings")
        for index, text in enumerate(value):
            if "\0" in _text(f"{name}[{index}]", text, limits.ARGUMENT_BYTES):
                raise invalid(f"{name}[{index}]", "holds a NUL character")
        if not value[0]:
            raise invalid(f"{name}[0]", "is empty")
        return value


@dataclass(frozen=True)
class Modules:
    default: Any = MISSING

    def check(self, name: str, value: Any) -> list[str]:
        if not isinstance(value, list) or len(value) > limits.PRELOAD_MODULES:
            raise invalid(name, f"must be an array of at most {limits.PRELOAD_MODULES} strings")
        for index, text in enumerate(value):
            if not all(part.isidentifier() for part in _text(f"{name}[{index}]", text, 256).split(".")):
                raise invalid(f"{name}[{index}]", f"{text[:80]!r} is not the name of a module")
        return value


@dataclass(frozen=True)
class Filters:
    """Pairs of a column and what its values must match."""

    default: Any = MISSING

    def check(self, name: str, value: Any) -> list[list[Any]]:
        if not isinstance(value, list) or len(value) > limits.FILTERS:
            raise invalid(name, f"must be an array of at most {limits.FILTERS} pairs")
        for index, pair in enumerate(value):
            if not isinstance(pair, list) or len(pair) != 2:
                raise invalid(f"{name}[{index}]", "must be an array of a column and a text")
            _whole(f"{name}[{index}][0]", pair[0], 0, limits.POSITION_MAX)
            _text(f"{name}[{index}][1]", pair[1], limits.FILTER_BYTES)
        return value


@dataclass(frozen=True)
class Record:
    """A nested object with its own fields, such as `pty`."""

    fields: dict[str, Field] = field(default_factory=dict)
    default: Any = MISSING

    def check(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise invalid(name, f"must be an object, got {_seen(value)}")
        try:
            return parse(self.fields, value)
        except OpError as error:
            inner = (error.details or {}).get("field", "")
            raise invalid(f"{name}.{inner}", error.message.split(": ", 1)[-1]) from None
