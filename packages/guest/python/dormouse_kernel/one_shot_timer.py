"""A timer of the system that sends a signal once. `signal.setitimer` belongs to user code."""

from __future__ import annotations

import ctypes
import struct
import time
from functools import lru_cache

SIGEV_SIGNAL = 0
SIGEVENT_BYTES = 64


class OneShotTimer:
    """A forked child does not have the timer of its parent."""

    def __init__(self, signal_number: int) -> None:
        self._signal_number = signal_number
        self._timer: ctypes.c_void_p | None = None
        self._libc = ctypes.CDLL(None)

    def start(self, seconds: float) -> bool:
        """Returns whether the signal will come."""
        try:
            if self._timer is None and not self._create():
                return False
            return self._set(seconds)
        except AttributeError:
            # A C library without timers.
            return False

    def stop(self) -> None:
        self._set(0)

    def _create(self) -> bool:
        event = struct.pack("qii", 0, self._signal_number, SIGEV_SIGNAL).ljust(SIGEVENT_BYTES, b"\0")
        timer = ctypes.c_void_p()
        if self._libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) != 0:
            return False
        self._timer = timer
        return True

    def _set(self, seconds: float) -> bool:
        return self._libc.timer_settime(self._timer, 0, _time_value(seconds), None) == 0


@lru_cache(maxsize=4)
def _time_value(seconds: float) -> bytes:
    return struct.pack("qqqq", 0, 0, int(seconds), int(seconds % 1 * 1_000_000_000))
