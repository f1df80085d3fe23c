# Written by tools/make_sync.py from _async/http.py: change that one.
"""Requests to one server: connections that are kept, keys, and repetition where it is safe."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections import deque
from typing import Any, Mapping, Optional, Union

from .._address import Address, find_address
from .._deadline import Deadline
from .._errors import (
    DormouseError,
    error_from_response,
    error_of,
    is_passing,
    is_untouched,
    unreachable,
)
from .._http1 import ProtocolError, request_head, with_query
from .._patience import Patience
from .._unset import UNSET, Unset
from .._version import VERSION
from .connection import Body, Connection, Response
from .io import ConnectTimeout, Job, Stream, Value, sleep

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 120.0
# A server that has answered before is being restarted; one that never has is probably not there.
RESTART_SECONDS = 30.0
FIRST_CONTACT_SECONDS = 2.0
# The server closes connections that were idle for 75 seconds.
IDLE_SECONDS = 60.0
IDLE_CONNECTIONS_MAX = 32
PAGE_ITEMS = 1000


class NeverSent(Exception):
    """No byte of the request can have arrived."""


class Http:
    def __init__(
        self,
        url: Optional[str],
        api_key: Optional[str],
        data_dir: Optional[str],
        tls: Optional[ssl.SSLContext],
        timeout: Optional[float],
    ) -> None:
        if timeout is not None and not timeout > 0:
            hint = "Give seconds, or None for as long as it takes."
            raise error_of("invalid_argument", f"timeout: must be more than 0 (saw {timeout!r})", hint=hint)
        self._asked = (url, api_key, data_dir)
        self._tls = tls
        self._timeout = timeout
        self._address: Optional[Address] = None
        # Those last used are at the right: the others are let grow old.
        self._idle: deque[tuple[float, str, Connection]] = deque()
        self._has_answered = False

    @property
    def address(self) -> Address:
        if self._address is None:
            self._address = find_address(*self._asked)
        return self._address

    def json(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, object]] = None,
        body: Optional[Mapping[str, Any]] = None,
        content: Optional[Body] = None,
        repeatable: Optional[bool] = None,
        timeout: Union[float, None, Unset] = UNSET,
    ) -> Any:
        """The JSON of a success. GET and DELETE can be repeated, and what `repeatable` says. `content` is sent as bytes.

        `timeout` is for one answer: that of the client if not given, no limit if None.
        """
        can_repeat = method in ("GET", "DELETE") if repeatable is None else repeatable
        # What was read from a file or an iterable is gone.
        is_whole = content is None or isinstance(content, bytes)
        tries = 0

        def attempt() -> Any:
            nonlocal tries
            tries += 1
            deadline = Deadline(self._timeout if isinstance(timeout, Unset) else timeout)
            try:
                response = self._open(method, path, query, body, content, {}, deadline)
                return self._parsed(response, path, deadline)
            except DormouseError as error:
                if method == "DELETE" and error.status == 404 and tries > 1:
                    # An earlier try of this very call has done it.
                    return None
                raise

        return (self._repeat(attempt, can_repeat) if is_whole else attempt())

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, object]] = None,
        json_body: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Response:
        """A success whose body is still to be read; the time-out is for its beginning.

        Not repeated: who reads knows where to go on.
        """
        return self._open(method, path, query, json_body, None, headers or {}, Deadline(self._timeout))

    def begin(
        self, method: str, path: str, *, json_body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Response:
        """The same for a body that can be read only once: repeated as any call is, until it begins."""
        return self._repeat(
            lambda: self.open(method, path, json_body=json_body, headers=headers), can_repeat=False
        )

    def _repeat(self, attempt: Job[Value], can_repeat: bool) -> Value:
        patience = Patience(RESTART_SECONDS if self._has_answered else FIRST_CONTACT_SECONDS)
        while True:
            try:
                return attempt()
            except DormouseError as error:
                if not _may_repeat(error, can_repeat):
                    raise
                sleep(patience.next_wait(error))

    def _open(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, object]],
        json_body: Optional[Mapping[str, Any]],
        content: Optional[Body],
        headers: Mapping[str, str],
        deadline: Deadline,
    ) -> Response:
        address = self.address
        all_headers = dict(headers)
        if json_body is not None:
            content = json.dumps(json_body).encode()
            all_headers["content-type"] = "application/json"
        elif content is not None:
            all_headers["content-type"] = "application/octet-stream"
        try:
            response = self._exchange(address, method, path, query, content, all_headers, deadline)
        except socket.timeout as cause:
            raise _late(path) from cause
        except (OSError, ProtocolError, NeverSent) as cause:
            raise self.lost(cause) from cause
        self._has_answered = True
        if response.status < 300:
            return response
        raise error_from_response(response.status, response.headers, self._read(response, path, deadline))

    def upgrade(self, path: str, headers: Mapping[str, str], query: Mapping[str, object]) -> Connection:
        """A connection that speaks another protocol from now on. The answer's head is still to be read."""
        try:
            connection = self._connect(self.address, Deadline(CONNECT_SECONDS))
            connection.send(self._head("GET", path, query, None, headers), None)
            return connection
        except (OSError, NeverSent) as cause:
            raise self.lost(cause) from cause

    def lost(self, cause: BaseException) -> DormouseError:
        url = self.address.url
        if self.address.is_from_file:
            # It may come back on another port, with a new file that says so.
            self._address = None
        error = unreachable(url, cause)
        error.details = {"neverSent": isinstance(cause, NeverSent)}
        return error

    def close(self) -> None:
        """Ends connections that nobody uses. It can go on to be used."""
        while self._idle:
            self._idle.pop()[2].stream.abort()

    def pages(self, path: str, query: Optional[Mapping[str, object]] = None) -> list[Any]:
        """All items of a list, page by page."""
        items: list[Any] = []
        cursor = None
        while True:
            page = self.json("GET", path, query={**(query or {}), "limit": PAGE_ITEMS, "cursor": cursor})
            items += page["items"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items

    def _read(self, response: Response, path: str, deadline: Deadline) -> bytes:
        try:
            return response.read(deadline)
        except socket.timeout as cause:
            response.close()
            raise _late(path) from cause
        except (OSError, ProtocolError) as cause:
            raise self.lost(cause) from cause

    def _parsed(self, response: Response, path: str, deadline: Deadline) -> Any:
        said = self._read(response, path, deadline)
        try:
            return json.loads(said) if said else None
        except ValueError:
            raise error_of("internal", "The answer is not JSON", status=response.status) from None

    def _exchange(
        self,
        address: Address,
        method: str,
        path: str,
        query: Optional[Mapping[str, object]],
        content: Optional[Body],
        headers: Mapping[str, str],
        deadline: Deadline,
    ) -> Response:
        connection = self._reuse(address) or self._connect(address, deadline)
        try:
            head = self._head(method, path, query, content, headers)
            was_taken = connection.send(head, content)
            answer = connection.head(method, deadline)
        except BaseException:
            connection.stream.abort()
            raise
        url = address.url

        def give_back(used: Connection, keeps_alive: bool) -> None:
            if keeps_alive and was_taken and len(self._idle) < IDLE_CONNECTIONS_MAX:
                self._idle.append((time.monotonic(), url, used))
            else:
                used.stream.abort()

        return Response(connection, answer, give_back)

    def _reuse(self, address: Address) -> Optional[Connection]:
        while self._idle:
            try:
                since, url, connection = self._idle.pop()
            except IndexError:
                # Another thread was faster.
                return None
            fresh = time.monotonic() - since < IDLE_SECONDS and url == address.url
            if fresh and connection.stream.is_usable():
                return connection
            connection.stream.abort()
        return None

    def _connect(self, address: Address, deadline: Deadline) -> Connection:
        tls, seconds = self._tls, deadline.left(CONNECT_SECONDS) or CONNECT_SECONDS
        if address.is_tls and tls is None:
            tls = self._tls = ssl.create_default_context()
        try:
            return Connection(
                Stream.open(address.host, address.port, tls if address.is_tls else None, seconds)
            )
        except (ConnectTimeout, OSError) as cause:
            raise NeverSent(str(cause)) from cause

    def _head(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, object]],
        content: Optional[Body],
        headers: Mapping[str, str],
    ) -> bytes:
        address = self.address
        host = f"[{address.host}]" if ":" in address.host else address.host
        all_headers = {
            "host": f"{host}:{address.port}",
            "authorization": f"Bearer {address.api_key}",
            "user-agent": f"dormouse-python/{VERSION}",
            **headers,
        }
        if isinstance(content, bytes):
            all_headers["content-length"] = str(len(content))
        elif content is not None:
            all_headers["transfer-encoding"] = "chunked"
        elif method in ("POST", "PUT", "PATCH"):
            all_headers["content-length"] = "0"
        return request_head(method, with_query(address.prefix + path, query), all_headers)


def _late(path: str) -> DormouseError:
    hint = "Give the client a longer `timeout`, or look at what the server is doing."
    return error_of("server_unreachable", f"The server did not answer {path} in time", hint=hint)


def _may_repeat(error: DormouseError, can_repeat: bool) -> bool:
    if is_untouched(error) or error.details.get("neverSent") is True:
        return True
    return can_repeat and is_passing(error)
