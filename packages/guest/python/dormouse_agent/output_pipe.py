"""The reading end of a pipe or PTY that processes of the sandbox write to."""

import asyncio
import fcntl
import os
import termios
from collections import OrderedDict
from collections.abc import Callable

from dormouse_agent.limits import LINGERING_PIPES, OUTPUT_CHUNK_BYTES
from dormouse_agent.text_events import TextEvents


class OutputPipe:
    """Reads continuously and writes to `target`. Without a target the output is discarded."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self.fd = fd
        self.target: TextEvents | None = None
        self.on_end: Callable[[], None] | None = None
        loop.add_reader(fd, self._on_readable)

    def _on_readable(self) -> None:
        self._read()

    def _read(self) -> int:
        """Reads one chunk. Returns 0 when the pipe is empty or has ended."""
        if self.fd < 0:
            return 0
        try:
            data = os.read(self.fd, OUTPUT_CHUNK_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            # A PTY reports EIO, not end of file, when its last process is gone.
            data = b""
        if not data:
            self.close()
        elif self.target is not None:
            self.target.write(data)
        return len(data)

    def drain(self) -> None:
        """Reads what is in the pipe at this moment, not what a busy writer adds meanwhile."""
        while self.fd >= 0 and (waiting := pending_bytes(self.fd)):
            while waiting > 0:
                if not (size := self._read()):
                    return
                waiting -= size
            return

    def switch_to(self, target: TextEvents | None, drained: bool = False) -> None:
        """Output written so far goes to the old target, later output to `target`. `drained`: it was read just now."""
        # A pipe without a target may already hold the first output of its new process.
        if self.target is not None and not drained:
            self.drain()
        if self.target is not None:
            self.target.end()
        # Draining may have reached the end and closed the pipe.
        if self.fd >= 0:
            self.target = target

    def close(self) -> None:
        if self.fd < 0:
            return
        self._loop.remove_reader(self.fd)
        os.close(self.fd)
        self.fd = -1
        if self.target is not None:
            self.target.end()
            self.target = None
        if self.on_end is not None:
            self.on_end()


class LingeringPipes:
    """Pipes of ended processes whose children still hold the other end."""

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
