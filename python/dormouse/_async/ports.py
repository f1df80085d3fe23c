"""Ports of a sandbox."""

from __future__ import annotations

from typing import Any, List

from .._json import decode, decode_all, given
from .._ports import Port, PortLink
from .http import Http

# Longer than the time-out of the server, so that the server answers first.
ANSWER_SECONDS = 10


class AsyncPorts:
    """Ports of a sandbox. A request to the `url` of a port wakes the sandbox."""

    def __init__(self, http: Http, sandbox: Any) -> None:
        self._http = http
        self._sandbox = sandbox

    async def list(self) -> List[Port]:
        """Ports that a process listens on, and public ports."""
        answer = await self._http.json("GET", await self._sandbox._at("ports"))
        return decode_all(Port, answer["items"])

    async def get(self, port: int) -> Port:
        return decode(Port, await self._http.json("GET", await self._sandbox._at("ports", str(port))))

    async def wait(self, port: int, *, timeout: float = 30) -> Port:
        """Waits until a process listens. Raises `port_closed` if none does in time."""
        path = await self._sandbox._at("ports", str(port), "wait")
        body = {"timeoutMs": round(timeout * 1000)}
        answer = await self._http.json(
            "POST", path, body=body, repeatable=True, timeout=timeout + ANSWER_SECONDS
        )
        return decode(Port, answer)

    async def set_access(self, port: int, access: str) -> Port:
        """`"private"` needs a key or a link. `"public"` is open to everyone who knows the URL."""
        path = await self._sandbox._at("ports", str(port))
        return decode(Port, await self._http.json("PUT", path, body={"access": access}, repeatable=True))

    async def link(self, port: int, *, expires_in: float = 3600, path: str = "/") -> PortLink:
        """Returns a URL that opens the port without a key for `expires_in` seconds."""
        at = await self._sandbox._at("ports", str(port), "link")
        body = given(expires_in_ms=round(expires_in * 1000), path=path)
        return decode(PortLink, await self._http.json("POST", at, body=body, repeatable=True))
