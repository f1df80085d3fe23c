"""How long an answer may take."""

from __future__ import annotations

import socket
import time
from typing import Optional


class Deadline:
    """The end of the time for one answer, however many pieces it comes in. None: no limit."""

    def __init__(self, seconds: Optional[float]) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> Optional[float]:
        """Seconds. Raises socket.timeout when there are none."""
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise socket.timeout(f"no answer within {self._seconds:g} s")
        return left
