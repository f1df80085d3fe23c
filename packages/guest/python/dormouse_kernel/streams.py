"""sys.stdout and sys.stderr: two pipes to the agent whose texts keep their order."""

import ctypes
import fcntl
import io
import os
import sys
import termios
import time

from dormouse_kernel.limits import BARRIER_S, BARRIER_STEP_S

_flush_c_streams = ctypes.CDLL(None).fflush


class LaneStream(io.TextIOWrapper):
    """A standard stream that notices when output changes over from the other one."""

    def __init__(self, fd: int, name: str, lanes: "Lanes") -> None:
        raw = io.FileIO(fd, "wb", closefd=False)
        raw.name = name
        super().__init__(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
        self.mode = "w"
        self._lanes = lanes

    def write(self, text: str, /) -> int:
        if self._lanes.last is not self:
            self._lanes.switch(self)
        return super().write(text)


class Lanes:
    def __init__(self) -> None:
        self.last: LaneStream | None = None
        self._in_child = False
        # User code may close or redirect 1 and 2; these are the way back.
        self._pipes = {fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (1, 2)}
        self._open()

    def _open(self) -> None:
        self.stdout = LaneStream(1, "<stdout>", self)
        self.stderr = LaneStream(2, "<stderr>", self)
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    def switch(self, to: LaneStream) -> None:
        """Lets the agent take what the other stream wrote before this one goes on."""
        previous, self.last = self.last, to
        if previous is None or self._in_child:
            return
        _flush(previous)
        pipe = self._pipes[1 if previous is self.stdout else 2]
        deadline = time.monotonic() + BARRIER_S
        while _unread_bytes(pipe) and time.monotonic() < deadline:
            time.sleep(BARRIER_STEP_S)

    def flush(self) -> None:
        """Everything written so far reaches the pipes, also what C code has buffered."""
        for stream in (sys.stdout, sys.stderr, self.stdout, self.stderr):
            _flush(stream)
        _flush_c_streams(None)
        self.last = None

    def flush_text(self) -> None:
        _flush(self.stdout)
        _flush(self.stderr)

    def repair(self) -> None:
        """Puts back streams that cannot be written to; a working replacement is the user's choice."""
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


def _flush(stream: object) -> None:
    try:
        stream.flush()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - a stream of the user's making may fail in any way
        pass


def _broken(stream: object) -> bool:
    try:
        return stream.closed or not callable(stream.write)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - as above
        return not hasattr(stream, "write")


def _unread_bytes(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")
