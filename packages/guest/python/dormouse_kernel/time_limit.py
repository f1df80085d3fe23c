"""Interrupts user code that runs between runs for too long."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dormouse_kernel.interrupts import Interrupts


@contextmanager
def time_limit(interrupts: Interrupts, seconds: float, repeat_s: float) -> Iterator[None]:
    """Uses the only timer of the process. An alarm of user code that is due meanwhile fires afterwards."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.deliver()

    handler = signal.signal(signal.SIGALRM, interrupt)
    started = time.monotonic()
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, seconds, repeat_s)
    try:
        yield
    finally:
        # Disarmed first: an interrupt here would leave the timer running.
        interrupts.disarm()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left_s:
            rest_s = max(left_s - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest_s, every_s)
