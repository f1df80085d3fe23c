"""Hosts of a cluster."""

from __future__ import annotations

from typing import List

from .._json import decode, decode_all
from .._nodes import Drained, Node
from .._paths import path_part
from .http import Http


class AsyncNodes:
    """The hosts of a cluster. A server outside a cluster is its only node."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self) -> List[Node]:
        """All nodes, as the server that answers sees them."""
        answer = await self._http.json("GET", "/v1/nodes")
        return decode_all(Node, answer["items"])

    async def cordon(self, node: str, *, cordoned: bool = True) -> Node:
        """Gives the node no new sandboxes; with `cordoned=False`, some again. Needs a key with the scope `admin`."""
        path = f"/v1/nodes/{path_part(node)}/cordon"
        return decode(Node, await self._http.json("POST", path, body={"cordoned": cordoned}, repeatable=True))

    async def drain(self, node: str) -> Drained:
        """Cordons the node and moves its sandboxes to others, however long it takes. Needs the scope `admin`."""
        path = f"/v1/nodes/{path_part(node)}/drain"
        return decode(Drained, await self._http.json("POST", path, body={}, repeatable=True, timeout=None))
