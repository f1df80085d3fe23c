"""sys.stdout and sys.stderr: two pipes to the agent that keep the order of what is written."""

from __future__ import annotations

import ctypes
import fcntl
import io
import os
import signal
import sys
import termios
import time
from types import FrameType

from dormouse_kernel.limits import PARTIAL_LINE_S, READ_WAIT_S, READ_WAIT_STEP_S
from dormouse_kernel.one_shot_timer import OneShotTimer

_flush_c_streams = ctypes.CDLL(None).fflush


class OrderedStream(io.TextIOWrapper):
    """A standard stream that notices when the program switches from the other stream to this one."""

    def __init__(self, fd: int, name: str, streams: "OutputStreams") -> None:
        raw = io.FileIO(fd, "wb", closefd=False)
        raw.name = name
        super().__init__(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
        self.mode = "w"
        self._streams = streams

    def write(self, text: str, /) -> int:
        streams = self._streams
        if streams.last is not self:
            streams.switch(self)
        size = super().write(text)
        if not streams.flushes_soon and not text.endswith("\n"):
            streams.flush_soon()
        return size

    def flush(self) -> None:
        # In Python, so that a signal handler can see that it interrupts a flush.
        super().flush()


STREAM_CODES = (OrderedStream.write.__code__, OrderedStream.flush.__code__)


class OutputStreams:
    def __init__(self) -> None:
        self.last: OrderedStream | None = None
        self._in_child = False
        # A signal will come that flushes a line without its end.
        self.flushes_soon = False
        self._timer = OneShotTimer(signal.SIGURG)
        # User code may close or redirect 1 and 2; these copies restore them.
        self._pipes = {fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (1, 2)}
        self._open()

    def _open(self) -> None:
        self.stdout = OrderedStream(1, "<stdout>", self)
        self.stderr = OrderedStream(2, "<stderr>", self)
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    def switch(self, to: OrderedStream) -> None:
        """Waits until the agent has read the output of the other stream."""
        previous, self.last = self.last, to
        if previous is None or self._in_child:
            return
        _flush(previous)
        pipe = self._pipes[1 if previous is self.stdout else 2]
        deadline = time.monotonic() + READ_WAIT_S
        while _unread_bytes(pipe) and time.monotonic() < deadline:
            time.sleep(READ_WAIT_STEP_S)

    def flush_soon(self) -> None:
        """Makes `flush_partial_line` flush in a moment: the rest of the line may come at once, or much later."""
        if not self._in_child:
            self.flushes_soon = self._timer.start(PARTIAL_LINE_S)
        if not self.flushes_soon:
            self.flush_text()

    def flush_partial_line(self, frame: FrameType | None) -> None:
        """For the handler of SIGURG, with the frame that it interrupts."""
        if not self.flushes_soon:
            return
        if frame is not None and frame.f_code in STREAM_CODES:
            # A flush inside a flush would lose text.
            self.flushes_soon = self._timer.start(PARTIAL_LINE_S)
            return
        self.flushes_soon = False
        self.flush_text()

    def flush(self) -> None:
        """Flushes all output to the pipes, including buffers of C code."""
        for stream in (sys.stdout, sys.stderr, self.stdout, self.stderr):
            _flush(stream)
        _flush_c_streams(None)
        self.last = None
        if self.flushes_soon:
            # The signal would disturb what user code does between runs.
            self.flushes_soon = False
            self._timer.stop()

    def flush_text(self) -> None:
        _flush(self.stdout)
        _flush(self.stderr)

    def repair(self) -> None:
        """Restores closed or broken streams. Keeps working replacements that user code installed."""
        for fd, pipe in self._pipes.items():
            try:
                os.fstat(fd)
            except OSError:
                os.dup2(pipe, fd)
        if self.stdout.closed or self.stderr.closed:
            self._open()
        if _broken(sys.stdout):
            sys.stdout = self.stdout
        if _broken(sys.stderr):
            sys.stderr = self.stderr

    def enter_child(self) -> None:
        self._in_child = True
        self.flushes_soon = False


def _flush(stream: object) -> None:
    try:
        stream.flush()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - a user's own stream may raise anything
        pass


def _broken(stream: object) -> bool:
    try:
        return stream.closed or not callable(stream.write)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - as above
        return not hasattr(stream, "write")


def _unread_bytes(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")
