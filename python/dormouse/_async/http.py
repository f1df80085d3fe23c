"""Requests to one server: its address, keys, and repetition where it is safe."""

from __future__ import annotations

import json
import socket
import ssl
import weakref
from typing import Any, Mapping, Optional, Union

from .._address import Address, find_address
from .._arguments import invalid_argument
from .._backoff import Backoff
from .._deadline import Deadline
from .._errors import (
    DormouseError,
    error_from_response,
    error_of,
    is_transient,
    is_unchanged,
    unreachable,
)
from .._owners import Owners
from .._paths import with_query
from .._ports import PortResponse
from .._unset import UNSET, Unset
from .._version import VERSION
from .io import Job, Value, here, is_over, sleep
from .session import NeverSent, Response, Session, SessionRetired
from .upload import Body

ANSWER_SECONDS = 120.0
# A server that has answered before is being restarted; one that never has is probably not there.
RESTART_SECONDS = 30.0
FIRST_CONTACT_SECONDS = 2.0
# The server writes to a stream at least every 15 seconds; one that is silent for three times as long is lost.
SILENCE_SECONDS = 45.0
PAGE_ITEMS = 1000
# On answers of the server itself to a request for a program in a sandbox.
REFUSED_HEADER = "dormouse-refused"


class Http:
    def __init__(
        self,
        url: Optional[str],
        api_key: Optional[str],
        data_dir: Optional[str],
        tls: Optional[ssl.SSLContext],
        timeout: Optional[float],
    ) -> None:
        if timeout is not None and not 0 < timeout < float("inf"):
            hint = "Give seconds, or None for no limit."
            raise invalid_argument("timeout", f"must be more than 0 (saw {timeout!r})", hint=hint)
        self._given_address = (url, api_key, data_dir)
        self._tls = tls
        self._timeout = timeout
        self._address: Optional[Address] = None
        # By process, event loop and origin.
        self._sessions: dict[tuple[int, Any, str], Session] = {}
        self._has_answered = False
        self._owners = Owners()
        # A client that was not closed does not leave open connections behind.
        weakref.finalize(self, _retire_all, self._sessions)

    @property
    def address(self) -> Address:
        if self._address is None:
            self._address = find_address(*self._given_address)
        return self._address

    def address_for(self, path: str) -> Address:
        """Where a call goes: in a cluster, to the host of the sandbox once an answer has named it."""
        return self._owners.find(path) or self.address

    @property
    def headers(self) -> dict[str, str]:
        """Those of every request."""
        return {
            "authorization": f"Bearer {self.address.api_key}",
            "user-agent": f"dormouse-python/{VERSION}",
        }

    def tls(self, address: Optional[Address] = None) -> Optional[ssl.SSLContext]:
        """None for plain HTTP."""
        if not (address or self.address).is_tls:
            return None
        self._tls = self._tls or ssl.create_default_context()
        return self._tls

    async def json(
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
        """Returns the JSON of a success. Repeats GET and DELETE, and requests that are `repeatable`.

        `content` is sent as it is. `timeout` is for one answer: that of the client if not given, no limit if None.
        """
        can_repeat = method in ("GET", "DELETE") if repeatable is None else repeatable
        # What was read from a file or an iterable cannot be read a second time.
        is_whole = content is None or isinstance(content, bytes)
        attempts = 0

        async def attempt() -> Any:
            nonlocal attempts
            attempts += 1
            deadline = Deadline(self._timeout if isinstance(timeout, Unset) else timeout)
            try:
                response = await self._open(method, path, query, body, content, {}, deadline)
                return await self._parsed(response, path, deadline)
            except DormouseError as error:
                if method == "DELETE" and error.status == 404 and attempts > 1:
                    # An earlier attempt of this call deleted it.
                    return None
                raise

        return await (self._repeat(attempt, can_repeat) if is_whole else attempt())

    async def open(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, object]] = None,
        json_body: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Response:
        """Returns a success whose body is still to be read; the time-out of the client is for its beginning.

        Not repeated: the reader knows where to continue.
        """
        response = await self._open(
            method, path, query, json_body, None, headers or {}, Deadline(self._timeout)
        )
        response.limit_silence(SILENCE_SECONDS)
        return response

    async def begin(
        self, method: str, path: str, *, json_body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Response:
        """The same for a body that can be read only once: repeated like any call until the body begins."""
        return await self._repeat(
            lambda: self.open(method, path, json_body=json_body, headers=headers), can_repeat=False
        )

    async def fetch(
        self, method: str, path: str, *, headers: Mapping[str, str], content: Optional[bytes]
    ) -> PortResponse:
        """Returns the response of a program in a sandbox, whatever its status. Not repeated.

        Raises when this server refused the request.
        """
        deadline = Deadline(self._timeout)
        try:
            response = await self._send(method, path, {**self.headers, **headers}, content, deadline)
        except socket.timeout as cause:
            raise _late(path) from cause
        except OSError as cause:
            raise self.lost(cause, path) from cause
        self._has_answered = True
        body = await self._read(response, path, deadline)
        if REFUSED_HEADER in response.headers:
            raise error_from_response(response.status, response.headers, body)
        return PortResponse(response.status, response.headers, body)

    async def _repeat(self, attempt: Job[Value], can_repeat: bool) -> Value:
        backoff = Backoff(RESTART_SECONDS if self._has_answered else FIRST_CONTACT_SECONDS)
        while True:
            try:
                return await attempt()
            except DormouseError as error:
                if not _may_repeat(error, can_repeat):
                    raise
                await sleep(backoff.next_delay(error))

    async def _open(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, object]],
        json_body: Optional[Mapping[str, Any]],
        content: Optional[Body],
        headers: Mapping[str, str],
        deadline: Deadline,
    ) -> Response:
        all_headers = {**self.headers, **headers}
        if json_body is not None:
            content = json.dumps(json_body).encode()
            all_headers["content-type"] = "application/json"
        elif content is not None:
            all_headers["content-type"] = "application/octet-stream"
        try:
            response = await self._send(method, with_query(path, query), all_headers, content, deadline)
        except socket.timeout as cause:
            raise _late(path) from cause
        except OSError as cause:
            raise self.lost(cause, path) from cause
        self._has_answered = True
        self._owners.learn(path, response.headers, self.address)
        if response.status < 300:
            return response
        raise error_from_response(response.status, response.headers, await self._read(response, path, deadline))

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], content: Optional[Body], deadline: Deadline
    ) -> Response:
        while True:
            try:
                return await self._session(self.address_for(path)).send(method, path, headers, content, deadline)
            except SessionRetired:
                # Another thread has closed it since.
                continue

    def _session(self, address: Address) -> Session:
        place = here()
        session = self._sessions.get((*place, address.origin))
        if session is not None:
            return session
        for key, other in [*self._sessions.items()]:
            if key[:2] == place:
                if key[2] == self.address.origin or self._owners.knows(key[2]):
                    continue
                # The server came back at another address.
                other.retire()
            elif not is_over(key[:2]):
                continue
            self._sessions.pop(key, None)
        return self._sessions.setdefault((*place, address.origin), Session(address, self.tls(address)))

    def lost(self, cause: BaseException, path: str = "") -> DormouseError:
        address = self.address_for(path)
        url = address.url
        if address is not self.address:
            self._owners.forget(address)
        elif address.is_from_file:
            # It may come back on another port, with a new file that says so.
            self._address = None
        error = unreachable(url, cause)
        error.details = {"neverSent": isinstance(cause, NeverSent)}
        return error

    def close(self) -> None:
        """Closes connections, each when its response is closed. The client stays usable."""
        _retire_all(self._sessions)

    async def close_and_wait(self) -> None:
        """The same, and returns when they are closed."""
        place = here()
        sessions = [session for key, session in [*self._sessions.items()] if key[:2] == place]
        self.close()
        for session in sessions:
            await session.wait_closed()

    async def pages(self, path: str, query: Optional[Mapping[str, object]] = None) -> list[Any]:
        """All items of a list, page by page."""
        items: list[Any] = []
        cursor = None
        while True:
            page = await self.json("GET", path, query={**(query or {}), "limit": PAGE_ITEMS, "cursor": cursor})
            items += page["items"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items

    async def _read(self, response: Response, path: str, deadline: Deadline) -> bytes:
        try:
            return await response.read(deadline)
        except socket.timeout as cause:
            raise _late(path) from cause
        except OSError as cause:
            raise self.lost(cause, path) from cause
        finally:
            response.close()

    async def _parsed(self, response: Response, path: str, deadline: Deadline) -> Any:
        text = await self._read(response, path, deadline)
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise error_of("internal", "The answer is not JSON", status=response.status) from None


def _retire_all(sessions: dict[Any, Session]) -> None:
    for key in [*sessions]:
        session = sessions.pop(key, None)
        if session is not None and not is_over(key[:2]):
            session.retire()


def _late(path: str) -> DormouseError:
    hint = "Give the client a longer `timeout`, or check what the server is doing."
    return error_of("server_unreachable", f"The server did not answer {path} in time", hint=hint)


def _may_repeat(error: DormouseError, can_repeat: bool) -> bool:
    if is_unchanged(error) or error.details.get("neverSent") is True:
        return True
    return can_repeat and is_transient(error)
