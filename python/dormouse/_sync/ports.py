# Written by tools/make_sync.py from _async/ports.py: change that one.
"""Ports of a sandbox."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Union
from urllib.parse import urljoin

from .._arguments import invalid_argument, milliseconds, require_count
from .._json import decode, decode_all, given
from .._errors import error_of
from .._paths import is_below
from .._ports import Port, PortLink, PortResponse
from .http import Http

# Longer than the time-out of the server, so that the server answers first.
ANSWER_SECONDS = 10
REDIRECTS = (301, 302, 303, 307, 308)
REDIRECTS_MAX = 20


class Ports:
    """Ports of a sandbox. A request to the `url` of a port wakes the sandbox.

    Browsers open `url`; programs open `path_url`, or use `fetch()`.
    """

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    def list(self) -> List[Port]:
        """Ports that a process listens on, and public ports."""
        answer = self._http.json("GET", self._sandbox._at("ports"))
        return decode_all(Port, answer["items"])

    def get(self, port: int) -> Port:
        return decode(Port, self._http.json("GET", self._at(port)))

    def wait(self, port: int, *, timeout: float = 30) -> Port:
        """Waits until a process listens. Raises `port_closed` if none does in time."""
        path = self._at(port, "wait")
        body = {"timeoutMs": milliseconds("timeout", timeout)}
        answer = self._http.json(
            "POST", path, body=body, repeatable=True, timeout=timeout + ANSWER_SECONDS
        )
        return decode(Port, answer)

    def fetch(
        self,
        port: int,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Optional[Mapping[str, str]] = None,
        body: Union[str, bytes, None] = None,
    ) -> PortResponse:
        """Sends a request to the program on a port, with the key of this client, and returns its whole response,
        whatever its status. Wakes the sandbox. Raises when the request does not reach the program: `port_closed` if
        none listens. Follows redirects within the port.
        """
        if any(name.lower() == "authorization" for name in headers or {}):
            hint = "Send the request with your own client to `path_url` of `ports.link()`, which needs no key."
            raise error_of("invalid_argument", "headers: `Authorization` carries the key of this client", hint=hint)
        at = self._at(port)
        content = body.encode() if isinstance(body, str) else body
        target = at + (path if path.startswith("/") else f"/{path}")
        if not is_below(at, target):
            raise invalid_argument("path", f"leads out of the port (saw {path!r})")
        for _ in range(REDIRECTS_MAX):
            response = self._http.fetch(method, target, headers=headers or {}, content=content)
            location = response.headers.get("location")
            if response.status not in REDIRECTS or not location:
                return response
            # The program chooses it, and a request carries the key: it must not lead to another address of the server.
            target = urljoin(target, location)
            if not is_below(at, target):
                return response
            if response.status == 303 or (response.status in (301, 302) and method == "POST"):
                method, content = "GET", None
        raise error_of("conflict", f"Port {port} redirected more than {REDIRECTS_MAX} times")

    def set_access(self, port: int, access: str) -> Port:
        """`"private"` needs a key or a link. `"public"` is open to everyone who knows the URL."""
        path = self._at(port)
        return decode(Port, self._http.json("PUT", path, body={"access": access}, repeatable=True))

    def link(self, port: int, *, expires_in: float = 3600, path: str = "/") -> PortLink:
        """Returns a URL that opens the port without a key for `expires_in` seconds."""
        at = self._at(port, "link")
        body = given(expires_in_ms=milliseconds("expires_in", expires_in), path=path)
        return decode(PortLink, self._http.json("POST", at, body=body, repeatable=True))

    def _at(self, port: int, *what: str) -> str:
        path: str = self._sandbox._at("ports", str(require_count("port", port)), *what)
        return path
