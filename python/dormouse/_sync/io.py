"""What waits, by sockets and threads. Its twin in `_async` has the same names over asyncio."""

from __future__ import annotations

import os
import select
import signal
import socket
import ssl
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Optional, Sequence, TypeVar

from .._sockets import shut_down, tune

Value = TypeVar("Value")
Opener = Callable[[int], Any]
Job = Callable[[], Value]
# One client may serve all sandboxes that were given none.
CAN_SHARE = True


def here() -> tuple[int, Any]:
    """The process: a connection works only in the one that it was made in, and not after a fork."""
    return os.getpid(), None


def is_over(place: tuple[int, Any]) -> bool:
    return place[0] != os.getpid()


class Closer:
    """Closes things at once; its twin does so in the background."""

    def start(self, close: Job[Any]) -> None:
        _quietly(close)

    def wait(self) -> None:
        pass


class Stream:
    """A connection: bytes in both directions. One thread may read while another writes."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self._pid = os.getpid()
        # Not __del__: among garbage in a circle the socket would complain first that it was not closed.
        self._close = weakref.finalize(self, raw.close)

    @classmethod
    def open(cls, host: str, port: int, tls: Optional[ssl.SSLContext], timeout: float) -> Stream:
        """Raises OSError."""
        try:
            raw = socket.create_connection((host, port), timeout)
        except socket.timeout:
            raise OSError(f"no connection within {timeout:g} s") from None
        try:
            tune(raw)
            if tls is not None:
                raw = tls.wrap_socket(raw, server_hostname=host)
            raw.settimeout(None)
            return cls(raw)
        except BaseException:
            raw.close()
            raise

    def read(self, limit: int, timeout: Optional[float]) -> bytes:
        """Empty at the end. Raises OSError."""
        # Not settimeout: it would also be that of a thread that writes.
        if timeout is not None and not self._has_pending() and not _is_readable(self._raw, timeout):
            raise socket.timeout(f"nothing was received for {timeout:g} s")
        return self._raw.recv(limit)

    def write(self, data: bytes) -> None:
        """Raises OSError."""
        self._raw.sendall(data)

    def abort(self) -> None:
        """Ends it, also while a thread waits for it."""
        if self._pid == os.getpid():
            shut_down(self._raw)
        self._close()

    def _has_pending(self) -> bool:
        # TLS may have deciphered more than was asked for.
        return isinstance(self._raw, ssl.SSLSocket) and self._raw.pending() > 0


class Beginning:
    """What a constructor is to make is there when it returns."""

    def _begin(self) -> None:
        self._ready()  # type: ignore[attr-defined]


def new_lock() -> threading.Lock:
    return threading.Lock()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def call(function: Optional[Callable[[Any], Any]], value: Any) -> Any:
    """A function of the caller, if there is one."""
    return None if function is None else function(value)


def call_all(function: Callable[..., Any], *values: Any) -> Any:
    """A function of the caller."""
    return function(*values)


def run_all(jobs: Sequence[Job[Value]], concurrency: int) -> list[Value]:
    """Their values in order, so many at once. After the first failure no other is begun."""
    pool = ThreadPoolExecutor(max_workers=max(1, min(concurrency, len(jobs))), thread_name_prefix="dormouse")
    futures = [pool.submit(job) for job in jobs]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        # Who called deletes what those that are under way work with: they end by themselves.
        pool.shutdown(wait=False)


def unbroken(job: Job[Value]) -> Value:
    """To its end also when Ctrl-C comes meanwhile: what it makes is then known, and can be cleared away."""
    if threading.current_thread() is not threading.main_thread() or not _is_ctrl_c_usual():
        # Ctrl-C arrives in the main thread only, and nobody cancels any other.
        return job()
    heard: list[int] = []

    def hear(number: int, frame: Any) -> None:
        if heard:
            # A second one does not wait.
            signal.default_int_handler(number, frame)
        heard.append(number)

    signal.signal(signal.SIGINT, hear)
    try:
        return job()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if heard:
            raise KeyboardInterrupt



def finish(job: Job[Any], timeout: float) -> None:
    """Tidying up that must happen although the caller was interrupted. What goes wrong with it is not said."""
    worker = threading.Thread(target=_quietly, args=(job,), daemon=True)
    worker.start()
    worker.join(timeout)


def _is_ctrl_c_usual() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _quietly(job: Job[Any]) -> None:
    try:
        job()
    except Exception:
        pass


def _is_readable(raw: socket.socket, timeout: float) -> bool:
    if hasattr(select, "poll"):
        # Not select: it cannot take descriptors above 1023.
        poller = select.poll()
        poller.register(raw, select.POLLIN)
        return bool(poller.poll(timeout * 1000))
    return bool(select.select([raw], [], [], timeout)[0])
