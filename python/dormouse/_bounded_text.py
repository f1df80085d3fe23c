"""Output of bounded size that keeps its beginning and its end."""

from __future__ import annotations

from collections import deque

OUTPUT_MAX_CHARACTERS = 4 * 1024**2


class BoundedText:
    """The beginning says what the output is, the end how it came out."""

    def __init__(self, limit: int = OUTPUT_MAX_CHARACTERS) -> None:
        self._half = limit // 2
        self._head: list[str] = []
        self._room = self._half
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self.lost_bytes = 0

    def add(self, text: str) -> None:
        taken = text[: self._room]
        if taken:
            self._head.append(taken)
            self._room -= len(taken)
        rest = text[len(taken) :]
        if not rest:
            return
        self._tail.append(rest)
        self._tail_length += len(rest)
        # Whole pieces go first; the one that straddles the bound is cut when the text is asked for.
        while self._tail_length - len(self._tail[0]) >= self._half:
            dropped = self._tail.popleft()
            self._tail_length -= len(dropped)
            self.lost_bytes += len(dropped.encode("utf-8", "replace"))

    def lose(self, count: int) -> None:
        """So much is missing here: what was added before is the beginning."""
        self.lost_bytes += count
        self._room = 0

    def text(self) -> str:
        tail = "".join(self._tail)
        if len(tail) > self._half:
            self.lost_bytes += len(tail[: -self._half].encode("utf-8", "replace"))
            tail = tail[-self._half :]
            self._tail, self._tail_length = deque([tail]), len(tail)
        head = "".join(self._head)
        return head + tail if self.lost_bytes == 0 else f"{head}\n… {self.lost_bytes} bytes left out …\n{tail}"
