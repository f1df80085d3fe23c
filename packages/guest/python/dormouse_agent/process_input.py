"""Writes the host's data to a process's stdin or PTY, as fast as the process reads it."""

import asyncio
import os
from collections.abc import Callable

from dormouse_agent.errors import OpError

END_OF_TRANSMISSION = b"\x04"


class ProcessInput:
    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, terminal: bool) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._terminal = terminal
        self._writable: asyncio.Future[None] | None = None
        # Several requests may write at once. The lock keeps each piece of data in one piece.
        self._lock = asyncio.Lock()

    async def write(self, data: bytes, on_written: Callable[[int], None] = lambda _: None) -> None:
        """Calls `on_written` with the size of each part, so that a caller that is cancelled knows how far it came."""
        async with self._lock:
            await self._write(data, on_written)

    async def _write(self, data: bytes, on_written: Callable[[int], None]) -> None:
        view = memoryview(data)
        while view:
            if self._fd < 0:
                raise OpError("conflict", "the process has closed its stdin or ended")
            try:
                size = os.write(self._fd, view)
                view = view[size:]
                on_written(size)
            except BlockingIOError:
                await self._wait()
            except OSError:
                self.close()

    async def _wait(self) -> None:
        self._writable = self._loop.create_future()
        self._loop.add_writer(self._fd, self._wake)
        try:
            await self._writable
        finally:
            if self._fd >= 0:
                self._loop.remove_writer(self._fd)
            self._writable = None

    def _wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def end(self) -> None:
        """Ends the input: closes a pipe, types Ctrl-D into a terminal."""
        if self._terminal:
            await self.write(END_OF_TRANSMISSION)
        else:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._wake()
