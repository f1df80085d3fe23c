"""Reading the state of a sandbox."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Mapping, Optional, Sequence

from .._json import decode, decode_all
from .._network import NetworkReport
from .._values import LedgerEntry, Metrics, SandboxInfo, Usage
from .._why import Why
from .client import AsyncClient


class AsyncViews:
    """The calls that only read. None of them wakes the sandbox."""

    client: AsyncClient

    async def _ready(self) -> SandboxInfo:
        raise NotImplementedError

    async def _at(self, *what: str) -> str:
        raise NotImplementedError

    async def why(self) -> Why:
        """What keeps it awake, and when it will sleep."""
        return decode(Why, await self.client.http.json("GET", await self._at("why")))

    async def tree(self) -> Mapping[str, Any]:
        """The forks and snapshots that share an ancestor with it, as `nodes`, and their memory. Wakes nothing."""
        answer: Mapping[str, Any] = await self.client.http.json("GET", await self._at("tree"))
        return answer

    async def ledger(self, *, after: int = -1) -> Sequence[LedgerEntry]:
        """Every sleep and wake, with cause and latency, oldest first."""
        return decode_all(LedgerEntry, await self.client.http.pages(await self._at("ledger"), {"after": after}))

    async def metrics(self, *, memory: bool = False) -> Metrics:
        """What it uses now: memory, CPU, processes. `memory` adds how much memory is its own."""
        query = {"memory": memory or None}
        answer = await self.client.http.json("GET", await self._at("metrics"), query=query)
        return decode(Metrics, {**answer, **(answer.get("usage") or {})})

    async def network(self) -> NetworkReport:
        """What it may reach, what it reached, and what was refused. `update` changes the policy."""
        return decode(NetworkReport, await self.client.http.json("GET", await self._at("network")))

    async def usage(self, *, start: Optional[datetime] = None, end: Optional[datetime] = None) -> Usage:
        """What it used between `start` and `end`. The default is this month."""
        info = await self._ready()
        return await self.client.usage(start=start, end=end, sandbox_id=info.id)
