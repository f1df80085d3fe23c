"""Paths and queries of requests."""

from __future__ import annotations

from typing import Mapping, Optional
from urllib.parse import quote, unquote, urlencode


def path_part(value: object) -> str:
    """Quotes `value` as one segment of a path: slashes and dots in it do not lead to another path."""
    text = quote(str(value), safe="")
    return {".": "%2E", "..": "%2E%2E"}.get(text, text)


def is_below(at: str, target: str) -> bool:
    """Whether a path stays below `at`, also after clients and proxies have resolved its `..`."""
    if not target.startswith(f"{at}/"):
        return False
    depth = 0
    for part in unquote(target[len(at) :].split("?")[0].split("#")[0]).replace("\\", "/").split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return False
    return True


def with_query(path: str, query: Optional[Mapping[str, object]]) -> str:
    """Adds the entries that are not None."""
    pairs = [(name, _text(value)) for name, value in (query or {}).items() if value is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
