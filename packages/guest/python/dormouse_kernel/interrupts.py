"""SIGINT: KeyboardInterrupt in user code, and only there."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    def __init__(self) -> None:
        self._armed = False
        self._pending = False
        # Set while a top-level await waits in the event loop: then its task is cancelled instead.
        self.instead: Callable[[], bool] | None = None

    def establish(self) -> None:
        """User code may have put its own handler there; it counts for its own run only."""
        signal.signal(signal.SIGINT, self._on_signal)

    def arm(self) -> None:
        self._armed = True

    def disarm(self) -> None:
        self._armed = False

    def take_pending(self) -> bool:
        """Whether a signal came while none could be delivered."""
        pending, self._pending = self._pending, False
        return pending

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """For sections that must not be left half done."""
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
        """To be called by a handler of a signal that has the meaning of SIGINT."""
        if not self._armed:
            self._pending = True
        elif self.instead is None or not self.instead():
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.deliver()


def restore_in_child() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
