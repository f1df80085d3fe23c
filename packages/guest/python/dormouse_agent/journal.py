"""A numbered list of events, bounded in bytes. Readers keep a position, not a copy."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from dormouse_agent.frames import encode_json
from dormouse_agent.limits import FIRST_MOMENT_BYTES, JOURNAL_BYTES, LARGE_EVENT_BYTES

Wake = Callable[[], None]


class Journal:
    __slots__ = ("_events", "closed", "dropped_bytes", "first_seq", "held", "next_seq", "size_bytes", "watchers")

    def __init__(self) -> None:
        self._events: deque[bytes] = deque()
        self.first_seq = 0
        self.next_seq = 0
        self.size_bytes = 0
        self.dropped_bytes = 0
        self.closed = False
        # Followers wait: more events are about to come, and one write to the host costs less than several.
        self.held = False
        self.watchers: list[Wake] = []

    def append(self, kind: str, **fields: Any) -> None:
        assert not self.closed, "no event may follow the last one"
        payload = encode_json({"seq": self.next_seq, "type": kind, **fields})
        self._events.append(payload)
        self.next_seq += 1
        self.size_bytes += len(payload)
        if self.size_bytes > FIRST_MOMENT_BYTES:
            self.held = False
        if len(payload) >= LARGE_EVENT_BYTES:
            self._wake()
            self._trim()
        else:
            self._trim()
            self._wake()

    def release(self) -> None:
        """Lets followers of a held journal send."""
        if self.held:
            self.held = False
            self._wake()

    def close(self) -> None:
        self.closed = True
        self.held = False
        self._wake()
        self.watchers.clear()

    def at(self, seq: int) -> bytes:
        return self._events[seq - self.first_seq]

    def bytes_before(self, seq: int) -> int:
        """An estimate if `seq` was dropped: the journal keeps only the total size of dropped events."""
        if seq < self.first_seq:
            return self.dropped_bytes * seq // self.first_seq
        return self.dropped_bytes + sum(map(len, islice(self._events, seq - self.first_seq)))

    def truncated(self, after: int, seen_bytes: int) -> bytes:
        """The event that stands for all dropped events after `after`. `seen_bytes`: what the reader has seen so far."""
        events = self.first_seq - 1 - after
        lost = self.dropped_bytes - seen_bytes
        return encode_json({"seq": self.first_seq - 1, "type": "truncated", "events": events, "bytes": lost})

    def _trim(self) -> None:
        # The newest event stays even if it alone exceeds the bound: its followers may have no credit now.
        while self.size_bytes > JOURNAL_BYTES and len(self._events) > 1:
            dropped = len(self._events.popleft())
            self.first_seq += 1
            self.size_bytes -= dropped
            self.dropped_bytes += dropped

    def _wake(self) -> None:
        if self.watchers and not self.held:
            for wake in tuple(self.watchers):
                wake()
