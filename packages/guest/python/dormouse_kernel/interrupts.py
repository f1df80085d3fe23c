"""SIGINT raises KeyboardInterrupt in user code only."""

from __future__ import annotations

import _signal
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    def __init__(self) -> None:
        self._armed = False
        self._pending = False
        # Set while a top-level await waits in the event loop: cancels its task. False: raise KeyboardInterrupt.
        self.cancel_await: Callable[[], bool] | None = None

    def establish(self) -> None:
        """Installs the handler. A handler that user code installs lasts only for its own run."""
        set_handler(signal.SIGINT, self._on_signal)

    def arm(self) -> None:
        self._armed = True

    def disarm(self) -> None:
        self._armed = False

    def take_pending(self) -> bool:
        """Whether a signal came while interrupts were disarmed."""
        pending, self._pending = self._pending, False
        return pending

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Delays interrupts until the body is complete."""
        if not self._armed or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._armed = False
        try:
            yield
        finally:
            self._armed = True
        if self.take_pending():
            raise KeyboardInterrupt

    def deliver(self) -> None:
        """Called by signal handlers that treat their signal like SIGINT."""
        if not self._armed:
            self._pending = True
        elif self.cancel_await is None or not self.cancel_await():
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.deliver()


def set_handler(number: int, handler: Callable[[int, FrameType | None], None]) -> None:
    """As `signal.signal`, which looks for both handlers in an enumeration: that takes ten times as long."""
    _signal.signal(int(number), handler)


def restore_in_child() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
