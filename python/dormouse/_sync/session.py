# Written by tools/make_sync.py from _async/session.py: change that one.
"""Connections to one address, by httpx, and responses that are read piece by piece."""

from __future__ import annotations

import socket
import ssl
import threading
import weakref
from collections import deque
from typing import Any, Mapping, Optional

import httpx

from .._address import Address
from .._deadline import Deadline
from .._sockets import shut_down, tune
from .io import Closer
from .upload import Body, Upload, current_upload, read_answer_after_refusal

CONNECT_SECONDS = 10.0
# The server closes connections that were idle for 75 seconds.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=60.0)

_HTTPX_ERRORS = (httpx.TransportError, httpx.StreamError, httpx.InvalidURL)


class NeverSent(ConnectionError):
    """No byte of the request can have arrived."""


class SessionRetired(Exception):
    """Its connections are closed. Send the request with another session."""


class Session:
    """The connections to one address, of one process and one event loop."""

    def __init__(self, address: Address, tls: Optional[ssl.SSLContext]) -> None:
        self._base = address.origin + address.prefix
        # Plain HTTP has no certificates: loading those of the system would only take time.
        verify: Any = (tls or ssl.create_default_context()) if address.is_tls else False
        self._client = httpx.Client(verify=verify, trust_env=False, limits=_LIMITS)
        self._closer = Closer()
        # Held for a moment at a time. Reentrant: the garbage collector may close a client in that moment.
        self._lock = threading.RLock()
        # One object per request whose response is not closed yet.
        self._active: set[object] = set()
        self._is_retired = False
        # Responses that the caller did not close. The next request closes them: the garbage collector must not wait for
        # locks of httpx.
        self._forgotten: deque[tuple[httpx.Response, Any]] = deque()

    def send(
        self, method: str, path: str, headers: Mapping[str, str], content: Optional[Body], deadline: Deadline
    ) -> Response:
        """Raises NeverSent, socket.timeout or another OSError, or SessionRetired."""
        left = deadline.left()
        connect = CONNECT_SECONDS if left is None else min(left, CONNECT_SECONDS)
        timeouts = {"connect": connect, "read": left, "write": left, "pool": None}
        extensions = {"timeout": timeouts, "trace": _on_trace}
        all_headers = {"accept-encoding": "identity", **headers}
        if isinstance(content, bytes):
            all_headers["content-length"] = str(len(content))
        upload = None if content is None else Upload(content)
        self._close_forgotten()
        request_token = self._begin_request()
        try:
            request = self._client.build_request(
                method,
                self._base + path,
                headers=all_headers,
                content=None if upload is None else upload.pieces(),
                extensions=extensions,
            )
            raw = self._send_upload(request, upload)
        except _HTTPX_ERRORS as cause:
            self._end_request(request_token)
            raise _as_os_error(cause, timeouts) from cause
        except BaseException:
            self._end_request(request_token)
            raise
        return Response(self, raw, timeouts, request_token)

    def _send_upload(self, request: httpx.Request, upload: Optional[Upload]) -> httpx.Response:
        previous = current_upload.set(upload)
        try:
            return self._client.send(request, stream=True)
        finally:
            current_upload.reset(previous)

    def retire(self) -> None:
        """Takes no more requests. Closes all connections after the last response is closed."""
        with self._lock:
            self._is_retired = True
            is_unused = not self._active
        if is_unused:
            self._closer.start(self._client.close)

    def wait_closed(self) -> None:
        """Waits for what is being closed."""
        self._closer.wait()

    def _begin_request(self) -> object:
        request_token = object()
        with self._lock:
            if self._is_retired:
                raise SessionRetired
            self._active.add(request_token)
        return request_token

    def _end_request(self, request_token: object) -> None:
        with self._lock:
            self._active.discard(request_token)
            is_unused = self._is_retired and not self._active
        if is_unused:
            self._closer.start(self._client.close)

    def _abort(self, raw: httpx.Response, request_token: object) -> None:
        shut_down(_socket_of(raw))
        self._closer.start(raw.close)
        self._end_request(request_token)

    def _forget(self, raw: httpx.Response, pieces: Any, request_token: object) -> None:
        shut_down(_socket_of(raw))
        # With its iterator, which would wait for the same locks at its own end.
        self._forgotten.append((raw, pieces))
        # Without the lock, which the interrupted code may hold.
        self._active.discard(request_token)

    def _close_forgotten(self) -> None:
        while self._forgotten:
            try:
                raw, _pieces = self._forgotten.popleft()
            except IndexError:
                # Another thread was faster.
                return
            self._closer.start(raw.close)


class Response:
    """A response whose body is still to be read. Close it, read or not."""

    def __init__(
        self, session: Session, raw: httpx.Response, timeouts: dict[str, Optional[float]], request_token: object
    ) -> None:
        self.status = raw.status_code
        self.headers = raw.headers
        self._session = session
        self._raw = raw
        self._timeouts = timeouts
        self._request_token = request_token
        self._pieces = raw.iter_raw()
        self._forgotten = weakref.finalize(self, session._forget, raw, self._pieces, request_token)
        self._forgotten.atexit = False

    def limit_silence(self, seconds: Optional[float]) -> None:
        """How long one piece may take from now on. To be called before the first one."""
        self._timeouts["read"] = seconds

    def piece(self) -> bytes:
        """Bytes of the body as they come; empty at the end. Raises OSError when the connection breaks."""
        try:
            return self._pieces.__next__()
        except StopIteration:
            if self._forgotten.detach() is not None:
                self._session._end_request(self._request_token)
            return b""
        except _HTTPX_ERRORS as cause:
            self.close()
            raise _as_os_error(cause, self._timeouts) from cause
        except BaseException:
            self.close()
            raise

    def read(self, deadline: Deadline) -> bytes:
        """The whole body. Raises OSError."""
        self.limit_silence(deadline.left())
        pieces: list[bytes] = []
        while True:
            piece = self.piece()
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            deadline.left()

    def close(self) -> None:
        """A connection whose response was not read to its end is closed, also while another thread reads it."""
        if self._forgotten.detach() is not None:
            self._session._abort(self._raw, self._request_token)


def _on_trace(event: str, info: Mapping[str, Any]) -> None:
    # httpx takes socket options from version 0.25 only.
    if event == "connection.connect_tcp.complete":
        tune(info["return_value"].get_extra_info("socket"))
    if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
        read_answer_after_refusal(info["return_value"])


def _socket_of(raw: httpx.Response) -> Any:
    try:
        return raw.extensions["network_stream"].get_extra_info("socket")
    except Exception:
        # It is closed already.
        return None


def _as_os_error(cause: Exception, timeouts: Mapping[str, Optional[float]]) -> OSError:
    """What httpx raises, as exceptions of the standard library."""
    if isinstance(cause, httpx.ConnectTimeout):
        return NeverSent(f"no connection within {timeouts['connect']:g} s")
    if isinstance(cause, httpx.ConnectError):
        return NeverSent(_text(cause))
    if isinstance(cause, httpx.WriteTimeout):
        return socket.timeout(f"nothing could be sent for {timeouts['write']:g} s")
    if isinstance(cause, httpx.TimeoutException):
        return socket.timeout(f"nothing was received for {timeouts['read']:g} s")
    return ConnectionError(_text(cause))


def _text(cause: Exception) -> str:
    return str(cause) or type(cause).__name__
