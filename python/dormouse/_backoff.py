"""How long to wait between attempts, and when to stop."""

from __future__ import annotations

import random
import time
from typing import Optional

from ._errors import DormouseError

FIRST_DELAY_SECONDS = 0.05
MAX_DELAY_SECONDS = 2.0


class Backoff:
    """Delays that grow with every failure, until there was no success for `give_up_after` seconds."""

    def __init__(self, give_up_after: float) -> None:
        self._give_up_after = give_up_after
        self._failures = 0
        self._failing_since: Optional[float] = None

    def reset(self) -> None:
        """Call this after a success."""
        self._failures = 0
        self._failing_since = None

    def next_delay(self, error: DormouseError) -> float:
        """Seconds to wait before the next attempt. Raises `error` when it is time to give up."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        step: float = min(FIRST_DELAY_SECONDS * 2**self._failures, MAX_DELAY_SECONDS)
        self._failures += 1
        # Random, so that the clients of a restarted server do not all come back at the same moment.
        delay = step * random.uniform(0.5, 1) if error.retry_after is None else error.retry_after
        if now + delay - self._failing_since > self._give_up_after:
            raise error
        return delay
