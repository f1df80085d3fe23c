"""Source of cells, for tracebacks and inspect; the oldest is forgotten when there is too much."""

import linecache
from collections import deque

from dormouse_kernel.limits import SOURCE_CHARS

_kept: deque[tuple[str, int]] = deque()
_kept_chars = 0


def unused_cell_name(number: int) -> str:
    """Cells run from within a cell, by magics, get names of their own."""
    name = f"<cell {number}>"
    part = 1
    while name in linecache.cache:
        part += 1
        name = f"<cell {number}.{part}>"
    return name


def keep_source(name: str, source: str) -> None:
    global _kept_chars
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    _kept.append((name, len(source)))
    _kept_chars += len(source)
    while _kept_chars > SOURCE_CHARS and len(_kept) > 1:
        oldest, size = _kept.popleft()
        _kept_chars -= size
        linecache.cache.pop(oldest, None)
