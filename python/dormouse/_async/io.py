"""What waits, by asyncio. Its twin in `_sync` has the same names over sockets and threads."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import ssl
import weakref
from typing import Any, Awaitable, Callable, Generator, Optional, Sequence, TypeVar

from .._sockets import tune

Value = TypeVar("Value")
Opener = Callable[[int], Awaitable[Any]]
Job = Callable[[], Awaitable[Value]]
# Connections end with their event loop: one client for all sandboxes would have connections of loops that are over.
CAN_SHARE = False


def here() -> tuple[int, Any]:
    """The process and the event loop: a connection works only in those that it was made in."""
    return os.getpid(), asyncio.get_running_loop()


def is_over(place: tuple[int, Any]) -> bool:
    pid, loop = place
    return pid != os.getpid() or loop.is_closed()


class Closer:
    """Closes things in the background, for callers that cannot await."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Future[Any]] = set()

    def start(self, close: Job[Any]) -> None:
        if _running_loop() is self._loop:
            self._begin(close)
            return
        try:
            self._loop.call_soon_threadsafe(self._begin, close)
        except RuntimeError:
            # The loop is over, and its connections with it.
            pass

    async def wait(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, close: Job[Any]) -> None:
        task = asyncio.ensure_future(_quietly(close))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _running_loop() -> Optional[asyncio.AbstractEventLoop]:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _quietly(job: Job[Any]) -> None:
    try:
        await job()
    except Exception:
        pass


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
            raise OSError(f"no connection within {timeout:g} s") from None
        raw = writer.get_extra_info("socket")
        if raw is not None:
            tune(raw)
        return cls(reader, writer)

    async def read(self, limit: int, timeout: Optional[float]) -> bytes:
        """Empty at the end. Raises OSError."""
        if timeout is None:
            return await self._reader.read(limit)
        try:
            return await asyncio.wait_for(self._reader.read(limit), timeout)
        except asyncio.TimeoutError:
            raise socket.timeout(f"nothing was received for {timeout:g} s") from None

    async def write(self, data: bytes) -> None:
        """Raises OSError."""
        self._writer.write(data)
        await self._writer.drain()

    def abort(self) -> None:
        """Ends it, also while a task waits for it."""
        _abort(self._writer, self._loop, self._pid)


def _abort(writer: asyncio.StreamWriter, loop: asyncio.AbstractEventLoop, pid: int) -> None:
    if pid != os.getpid() or loop.is_closed():
        return
    try:
        writer.transport.abort()
    except RuntimeError:
        pass


class Creatable:
    """A constructor cannot await: `await`, `async with` or the first call creates the object on the server."""

    def _after_init(self) -> None:
        pass

    def __await__(self) -> Generator[Any, None, Any]:
        return self._created().__await__()

    async def _created(self) -> Any:
        await self._ready()  # type: ignore[attr-defined]
        return self


def new_lock() -> asyncio.Lock:
    return asyncio.Lock()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def call_later(seconds: float, function: Callable[[], Any]) -> Callable[[], Any]:
    """Calls `function` after a time, unless the function that it returns is called before."""
    return asyncio.get_running_loop().call_later(seconds, function).cancel


async def call_handler(function: Optional[Callable[[Any], Any]], value: Any) -> Any:
    """Calls a function of the caller, if there is one."""
    return None if function is None else await call_function(function, value)


async def call_function(function: Callable[..., Any], *values: Any) -> Any:
    """Calls a function of the caller, which may be a coroutine function."""
    answer = function(*values)
    return await answer if inspect.isawaitable(answer) else answer


async def run_concurrently(jobs: Sequence[Job[Value]], concurrency: int) -> list[Value]:
    """Runs at most `concurrency` jobs at once. Returns their values in order. The first failure cancels the others."""
    semaphore = asyncio.Semaphore(concurrency)

    async def limited(job: Job[Value]) -> Value:
        async with semaphore:
            return await job()

    tasks = [asyncio.ensure_future(limited(job)) for job in jobs]
    try:
        return list(await asyncio.gather(*tasks))
    except asyncio.CancelledError:
        # `gather` has cancelled them. Cancelled a second time, they would not clean up.
        raise
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)


async def uninterrupted(job: Job[Value]) -> Value:
    """Runs `job` to its end, also if the caller is cancelled, so that the caller can clean up what it made."""
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


async def clean_up(job: Job[Any], timeout: float) -> None:
    """Runs `job` although the caller is being cancelled. Ignores its failure."""
    task = asyncio.ensure_future(asyncio.wait_for(job(), timeout))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        # Cancelled a second time: the job continues in the background.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
    except Exception:
        pass
