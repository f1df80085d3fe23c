"""All that waits, by asyncio. Its twin in `_sync` has the same names over sockets and threads."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import ssl
import weakref
from typing import Any, Awaitable, Callable, Generator, Optional, Sequence, TypeVar

from .._sockets import keep_alive

Value = TypeVar("Value")
Opener = Callable[[int], Awaitable[Any]]
Job = Callable[[], Awaitable[Value]]
# Connections end with their loop, and nobody would close those of a client that belongs to no one.
CAN_SHARE = False


class Stream:
    """A connection: bytes in both directions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        weakref.finalize(self, _abort, writer, self._loop, self._pid).atexit = False

    @classmethod
    async def open(cls, host: str, port: int, tls: Optional[ssl.SSLContext], timeout: float) -> Stream:
        """Raises OSError."""
        opening = asyncio.open_connection(host, port, ssl=tls, server_hostname=host if tls else None)
        try:
            reader, writer = await asyncio.wait_for(opening, timeout)
        except asyncio.TimeoutError:
            raise ConnectTimeout(f"no connection within {timeout:g} s") from None
        raw = writer.get_extra_info("socket")
        if raw is not None:
            keep_alive(raw)
        return cls(reader, writer)

    async def read(self, limit: int, timeout: Optional[float]) -> bytes:
        """Empty at the end. Raises OSError."""
        if timeout is None:
            return await self._reader.read(limit)
        try:
            return await asyncio.wait_for(self._reader.read(limit), timeout)
        except asyncio.TimeoutError:
            raise socket.timeout(f"nothing was heard for {timeout:g} s") from None

    async def write(self, data: bytes) -> None:
        """Raises OSError."""
        self._writer.write(data)
        await self._writer.drain()

    def is_usable(self) -> bool:
        """Nobody has ended it while it was idle, and it belongs to this loop and this process."""
        return (
            self._pid == os.getpid()
            and self._loop is asyncio.get_running_loop()
            and not self._reader.at_eof()
            and not self._writer.transport.is_closing()
        )

    def abort(self) -> None:
        """Ends it at once, whoever is waiting."""
        _abort(self._writer, self._loop, self._pid)


def _abort(writer: asyncio.StreamWriter, loop: asyncio.AbstractEventLoop, pid: int) -> None:
    if pid != os.getpid() or loop.is_closed():
        return
    try:
        writer.transport.abort()
    except RuntimeError:
        pass


class ConnectTimeout(ConnectionError):
    """No byte was sent."""


class Beginning:
    """A constructor cannot wait: what it is to make is made at the first need, by `await` or by `async with`."""

    def _begin(self) -> None:
        pass

    def __await__(self) -> Generator[Any, None, Any]:
        return self._begun().__await__()

    async def _begun(self) -> Any:
        await self._ready()  # type: ignore[attr-defined]
        return self


def new_lock() -> asyncio.Lock:
    return asyncio.Lock()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def call(function: Optional[Callable[[Any], Any]], value: Any) -> Any:
    """A function of the caller, if there is one."""
    return None if function is None else await call_all(function, value)


async def call_all(function: Callable[..., Any], *values: Any) -> Any:
    """A function of the caller, which may be a coroutine function."""
    answer = function(*values)
    return await answer if inspect.isawaitable(answer) else answer


async def run_all(jobs: Sequence[Job[Value]], concurrency: int) -> list[Value]:
    """Their values in order, so many at once. The first failure ends the others."""
    turns = asyncio.Semaphore(concurrency)

    async def in_turn(job: Job[Value]) -> Value:
        async with turns:
            return await job()

    tasks = [asyncio.ensure_future(in_turn(job)) for job in jobs]
    try:
        return list(await asyncio.gather(*tasks))
    except asyncio.CancelledError:
        # They have been told: told twice, they would not tidy up.
        raise
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)


async def unbroken(job: Job[Value]) -> Value:
    """To its end also when the caller is cancelled meanwhile: what it makes is then known, and can be cleared away."""
    task = asyncio.ensure_future(job())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                pass
        raise


async def finish(job: Job[Any], timeout: float) -> None:
    """Tidying up that must happen although the caller is being cancelled. What goes wrong with it is not said."""
    task = asyncio.ensure_future(asyncio.wait_for(job(), timeout))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        # Cancelled once more: it goes on by itself.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
    except Exception:
        pass
