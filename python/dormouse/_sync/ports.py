# Written by tools/make_sync.py from _async/ports.py: change that one.
"""What listens inside a sandbox, and who may reach it from outside."""

from __future__ import annotations

from typing import Any, List

from .._json import decode, decode_all, given
from .._ports import Port, PortLink
from .http import Http

# The server's own time-out has to come first.
ANSWER_SECONDS = 10


class Ports:
    """Ports of a sandbox. A request to the `url` of one wakes it."""

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    def list(self) -> List[Port]:
        """Those that something listens on, and those that are public."""
        answer = self._http.json("GET", self._sandbox._at("ports"))
        return decode_all(Port, answer["items"])

    def get(self, port: int) -> Port:
        return decode(Port, self._http.json("GET", self._sandbox._at("ports", str(port))))

    def wait(self, port: int, *, timeout: float = 30) -> Port:
        """Until something listens. Raises `port_closed` when nothing does in time."""
        path = self._sandbox._at("ports", str(port), "wait")
        body = {"timeoutMs": round(timeout * 1000)}
        answer = self._http.json(
            "POST", path, body=body, repeatable=True, timeout=timeout + ANSWER_SECONDS
        )
        return decode(Port, answer)

    def set_access(self, port: int, access: str) -> Port:
        """`"private"`: with a key or a link. `"public"`: anybody who knows the address."""
        path = self._sandbox._at("ports", str(port))
        return decode(Port, self._http.json("PUT", path, body={"access": access}, repeatable=True))

    def link(self, port: int, *, expires_in: float = 3600, path: str = "/") -> PortLink:
        """An address that opens the port without a key for so many seconds."""
        at = self._sandbox._at("ports", str(port), "link")
        body = given(expires_in_ms=round(expires_in * 1000), path=path)
        return decode(PortLink, self._http.json("POST", at, body=body, repeatable=True))
