"""Source code of cells, for tracebacks and `inspect`."""

import linecache
from collections import deque

from dormouse_kernel.limits import SOURCE_CHARS


def unused_cell_name(number: int) -> str:
    """Cells that run inside a cell, through magics, get names of their own."""
    name = f"<cell {number}>"
    part = 1
    while name in linecache.cache:
        part += 1
        name = f"<cell {number}.{part}>"
    return name


class CellSources:
    """Keeps sources in `linecache`, and drops the oldest above a bound."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, int]] = deque()
        self._kept_chars = 0

    def add(self, name: str, source: str) -> None:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        self._kept.append((name, len(source)))
        self._kept_chars += len(source)
        while self._kept_chars > SOURCE_CHARS and len(self._kept) > 1:
            oldest, size = self._kept.popleft()
            self._kept_chars -= size
            linecache.cache.pop(oldest, None)

    def drop_all(self) -> None:
        for name, _ in self._kept:
            linecache.cache.pop(name, None)
        self._kept.clear()
        self._kept_chars = 0
