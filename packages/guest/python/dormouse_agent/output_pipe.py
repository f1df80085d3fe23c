"""The reading end of a pipe or PTY that something in the sandbox writes to."""

import asyncio
import fcntl
import os
import termios
from collections import OrderedDict
from collections.abc import Callable

from dormouse_agent.limits import LINGERING_PIPES, OUTPUT_CHUNK_BYTES
from dormouse_agent.text_lane import TextLane


class OutputPipe:
    """Reads all the time; where the text goes is decided by `lane`, None throws it away."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self.fd = fd
        self.lane: TextLane | None = None
        self.on_end: Callable[[], None] | None = None
        loop.add_reader(fd, self._on_readable)

    def _on_readable(self) -> None:
        self._read()

    def _read(self) -> int:
        """Takes one chunk; 0 when there is nothing now or ever."""
        if self.fd < 0:
            return 0
        try:
            data = os.read(self.fd, OUTPUT_CHUNK_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            # A PTY whose last process is gone says EIO where a pipe says end of file.
            data = b""
        if not data:
            self.close()
        elif self.lane is not None:
            self.lane.feed(data)
        return len(data)

    def drain(self) -> None:
        """Takes what is in the pipe at this moment, and not what a busy writer adds meanwhile."""
        while self.fd >= 0 and (waiting := pending_bytes(self.fd)):
            while waiting > 0:
                if not (size := self._read()):
                    return
                waiting -= size
            return

    def drain_to_lane_end(self, lane: TextLane | None) -> None:
        """Everything written so far belongs to the old lane, what comes later to `lane`."""
        # A pipe that has no lane yet may hold the first output of what it was made for.
        if self.lane is not None:
            self.drain()
        if self.lane is not None:
            self.lane.flush()
        # Draining may have met the end.
        if self.fd >= 0:
            self.lane = lane

    def close(self) -> None:
        if self.fd < 0:
            return
        self._loop.remove_reader(self.fd)
        os.close(self.fd)
        self.fd = -1
        if self.lane is not None:
            self.lane.flush()
            self.lane = None
        if self.on_end is not None:
            self.on_end()


class LingeringPipes:
    """Pipes that outlived what they were made for, because its children still hold them."""

    def __init__(self) -> None:
        self._pipes: OrderedDict[int, OutputPipe] = OrderedDict()

    def keep(self, pipe: OutputPipe) -> None:
        if pipe.fd < 0:
            return
        key = id(pipe)
        self._pipes[key] = pipe
        pipe.on_end = lambda: self._pipes.pop(key, None) and None
        if len(self._pipes) > LINGERING_PIPES:
            self._pipes.popitem(last=False)[1].close()


def pending_bytes(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")
