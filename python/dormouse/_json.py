"""JSON of the server to dataclasses and back: `createdAt` is `created_at`, times are datetimes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import Any, Callable, Mapping, Optional, Type, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Value = TypeVar("Value")
Converter = Callable[[Any], Any]


def decode(cls: Type[Value], answer: Mapping[str, Any]) -> Value:
    """Reads the fields of a dataclass by their types. Ignores others: the server may be newer than this package."""
    found = {}
    for name, key, convert in _plan(cast(Any, cls)):
        value = answer.get(key)
        if value is not None:
            found[name] = value if convert is None else convert(value)
    return cls(**found)


def decode_all(cls: Type[Value], answers: Any) -> list[Value]:
    return [decode(cls, answer) for answer in answers]


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def format_time(time: Optional[datetime]) -> Optional[str]:
    """A time without a zone is local time, as everywhere in Python."""
    if time is None:
        return None
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None. `snake_case` becomes `camelCase`."""
    return {_camel(name): value for name, value in values.items() if value is not None}


@lru_cache(maxsize=None)
def _plan(cls: Any) -> list[tuple[str, str, Optional[Converter]]]:
    hints = get_type_hints(cls)
    return [(each.name, _camel(each.name), _converter(hints[each.name])) for each in fields(cls)]


def _converter(hint: Any) -> Optional[Converter]:
    """None for types that JSON has itself."""
    if hint is datetime:
        return parse_time
    if is_dataclass(hint):
        return getattr(hint, "from_json", None) or partial(decode, cast(Any, hint))
    arguments = [each for each in get_args(hint) if each is not type(None)]
    if get_origin(hint) is Union and len(arguments) == 1:
        return _converter(arguments[0])
    if len(arguments) == 1 and is_dataclass(arguments[0]):
        return partial(decode_all, arguments[0])
    return None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
