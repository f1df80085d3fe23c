"""Numbered events, each once and in order, over as many connections as needed."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

from .._arguments import milliseconds
from .._errors import DormouseError, error_from_answer, error_of, is_transient, timed_out
from .._backoff import Backoff
from .session import Response
from .io import Opener, call_later, clean_up, sleep

SSE = {"accept": "text/event-stream"}
# How long a reader tries to connect again without receiving another event.
RECONNECT_SECONDS = 60.0
END_SECONDS = 1.0


@contextmanager
def limited(timeout: Optional[float], fail: Callable[[DormouseError], Any]) -> Iterator[None]:
    """Calls `fail` with `timed_out` if the block takes longer. None or 0: no limit."""
    seconds = (milliseconds("timeout", timeout) or 0) / 1000
    cancel = None if seconds == 0 else call_later(seconds, lambda: fail(timed_out(seconds)))
    try:
        yield
    finally:
        if cancel is not None:
            cancel()


class EventLines:
    """Parses the `data:` lines of an event stream."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._lines: list[bytes] = []
        # The pieces of an incomplete line: an image may arrive in thousands of them.
        self._begun: list[bytes] = []

    async def next(self) -> Optional[dict[str, Any]]:
        """Returns the next object, None at the end. Raises `server_unreachable` if the stream breaks."""
        while True:
            while self._lines:
                line = self._lines.pop()
                if line.startswith(b"data: "):
                    event: dict[str, Any] = json.loads(line[len(b"data: ") :])
                    return event
            try:
                piece = await self._response.piece()
            except OSError as cause:
                raise error_of("server_unreachable", f"The stream broke: {cause}") from cause
            if not piece:
                return None
            first, *rest = piece.split(b"\n")
            self._begun.append(first)
            if rest:
                whole = [b"".join(self._begun), *rest]
                self._begun = [whole.pop()]
                self._lines = whole[::-1]

    def close(self) -> None:
        self._response.close()


class Follower:
    """Calls `open` with the last `seq` that it has seen, again after every lost connection."""

    def __init__(self, open: Opener, after: int = -1, may_end: bool = False, last: str = "exit") -> None:
        self._open = open
        self._last = last
        self._may_end = may_end
        self._lines: Optional[EventLines] = None
        self._backoff = Backoff(RECONNECT_SECONDS)
        self._failure: Optional[DormouseError] = None
        self.seen = after
        self.is_over = False

    async def next(self) -> Optional[dict[str, Any]]:
        """Returns the next event, None after the last."""
        while not self.is_over:
            try:
                if self._lines is None:
                    self._lines = EventLines(await self._open(self.seen))
                if self._failure is not None:
                    raise self._failure
                event = await self._lines.next()
                if event is not None:
                    if not self._is_new(event):
                        continue
                    if event["type"] == self._last:
                        await self._end(self._lines)
                    return event
                if self._may_end:
                    self.is_over = True
                    return None
                raise error_of("server_unreachable", "The stream ended before the last event.")
            except DormouseError as error:
                self.drop()
                if self._failure is not None:
                    self.is_over = True
                    raise self._failure from None
                if not is_transient(error):
                    self.is_over = True
                    raise
                await sleep(self._backoff.next_delay(error))
        return None

    def fail(self, error: DormouseError) -> None:
        """Makes `next` raise the error, also while a task or thread waits in it."""
        self._failure = error
        self.drop()

    def drop(self) -> None:
        """Closes the connection. The next event opens a new one."""
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def _is_new(self, event: dict[str, Any]) -> bool:
        if event["type"] == "failed":
            raise error_from_answer(event["error"])
        if event["seq"] <= self.seen:
            return False
        self.seen = event["seq"]
        self._backoff.reset()
        return True

    async def _end(self, lines: EventLines) -> None:
        """Reads the end of the response, which follows the last event, so that the connection can be used again."""
        self.is_over = True
        try:
            await clean_up(lines.next, END_SECONDS)
        finally:
            self.drop()
