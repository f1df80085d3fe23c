"""Paths and queries of requests."""

from __future__ import annotations

from typing import Mapping, Optional
from urllib.parse import quote, urlencode


def path_part(value: object) -> str:
    """Quotes `value` as one segment of a path: slashes and dots in it do not lead to another path."""
    text = quote(str(value), safe="")
    return {".": "%2E", "..": "%2E%2E"}.get(text, text)


def with_query(path: str, query: Optional[Mapping[str, object]]) -> str:
    """Adds the entries that are not None."""
    pairs = [(name, _text(value)) for name, value in (query or {}).items() if value is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
