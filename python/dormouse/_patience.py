"""How long to wait between tries, and when to stop trying."""

from __future__ import annotations

import random
import time
from typing import Optional

from ._errors import DormouseError

FIRST_WAIT = 0.05
LONGEST_WAIT = 2.0


class Patience:
    """Longer and longer waits, until there was no progress for too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._tries = 0
        self._since: Optional[float] = None

    def renew(self) -> None:
        """Something went well."""
        self._tries = 0
        self._since = None

    def next_wait(self, error: DormouseError) -> float:
        """Seconds. Raises `error` when it is not worth waiting."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        step: float = min(FIRST_WAIT * 2**self._tries, LONGEST_WAIT)
        self._tries += 1
        # Spread, so that many clients of one server do not come back all at once.
        wait = step * random.uniform(0.5, 1) if error.retry_after is None else error.retry_after
        if now + wait - self._since > self._seconds:
            raise error
        return wait
