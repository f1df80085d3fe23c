"""From JSON of the server to dataclasses: `createdAt` becomes `created_at`, times become datetimes."""

from __future__ import annotations

from dataclasses import field, fields
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Callable, Mapping, Optional, Type, TypeVar, cast

Answer = TypeVar("Answer")


def read(cls: Type[Answer], answer: Mapping[str, Any]) -> Answer:
    """What the server says beyond the fields of `cls` is left out: it may be newer than this."""
    found = {}
    for name, key, by in _plan(cast(Any, cls)):
        value = answer.get(key)
        if value is not None:
            found[name] = value if by is None else by(value)
    return cls(**found)


def read_all(cls: Type[Answer], answers: Any) -> list[Answer]:
    return [read(cls, answer) for answer in answers]


def converted(by: Callable[[Any], Any], **options: Any) -> Any:
    """A field whose JSON is something else."""
    return field(metadata={"by": by}, **options)


def when(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def when_text(moment: Optional[datetime]) -> Optional[str]:
    """A time without a zone is meant as local time, as everywhere in Python."""
    if moment is None:
        return None
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(seconds: Optional[float]) -> Optional[int]:
    """Rounded up: a short time is not none."""
    return None if seconds is None else max(-int(-seconds * 1000 // 1), 0)


def given(**values: Any) -> dict[str, Any]:
    """Only what is there. `snake_case` becomes `camelCase`."""
    return {_camel(name): value for name, value in values.items() if value is not None}


@lru_cache(maxsize=None)
def _plan(cls: Any) -> list[tuple[str, str, Any]]:
    return [(each.name, _camel(each.name), each.metadata.get("by")) for each in fields(cls)]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
