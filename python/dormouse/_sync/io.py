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
        # Not __del__: in a reference cycle the socket could be collected first, with a ResourceWarning.
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
        # Not settimeout: it would also apply to a thread that writes.
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
        # TLS may have decrypted more than was read.
        return isinstance(self._raw, ssl.SSLSocket) and self._raw.pending() > 0


class Creatable:
    """The constructor creates the object on the server."""

    def _after_init(self) -> None:
        self._ready()  # type: ignore[attr-defined]


def new_lock() -> threading.Lock:
    return threading.Lock()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def call_later(seconds: float, function: Callable[[], Any]) -> Callable[[], Any]:
    """Calls `function` after a time, in a thread, unless the function that it returns is called before."""
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()
    return timer.cancel


def call_handler(function: Optional[Callable[[Any], Any]], value: Any) -> Any:
    """Calls a function of the caller, if there is one."""
    return None if function is None else function(value)


def call_function(function: Callable[..., Any], *values: Any) -> Any:
    """Calls a function of the caller."""
    return function(*values)


def run_concurrently(jobs: Sequence[Job[Value]], concurrency: int) -> list[Value]:
    """Runs at most `concurrency` jobs at once. Returns their values in order. Starts none after the first failure."""
    pool = ThreadPoolExecutor(max_workers=max(1, min(concurrency, len(jobs))), thread_name_prefix="dormouse")
    futures = [pool.submit(job) for job in jobs]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        # The caller deletes the sandboxes that the running jobs work with, which ends them.
        pool.shutdown(wait=False)


def uninterrupted(job: Job[Value]) -> Value:
    """Runs `job` to its end, also after Ctrl-C, so that the caller can clean up what it made."""
    if threading.current_thread() is not threading.main_thread() or not _is_default_ctrl_c():
        # Ctrl-C interrupts the main thread only.
        return job()
    received: list[int] = []

    def on_signal(number: int, frame: Any) -> None:
        if received:
            # A second Ctrl-C interrupts at once.
            signal.default_int_handler(number, frame)
        received.append(number)

    signal.signal(signal.SIGINT, on_signal)
    try:
        return job()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if received:
            raise KeyboardInterrupt


def clean_up(job: Job[Any], timeout: float) -> None:
    """Runs `job` although the caller was interrupted. Ignores its failure."""
    worker = threading.Thread(target=_quietly, args=(job,), daemon=True)
    worker.start()
    worker.join(timeout)


def _is_default_ctrl_c() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _quietly(job: Job[Any]) -> None:
    try:
        job()
    except Exception:
        pass


def _is_readable(raw: socket.socket, timeout: float) -> bool:
    if hasattr(select, "poll"):
        # Not select: it fails for descriptors above 1023.
        poller = select.poll()
        poller.register(raw, select.POLLIN)
        return bool(poller.poll(timeout * 1000))
    return bool(select.select([raw], [], [], timeout)[0])
