"""What a sandbox says of itself."""

from __future__ import annotations

from datetime import datetime
from typing import Optional, Sequence

from .._json import decode, decode_all
from .._network import NetworkReport
from .._values import LedgerEntry, Metrics, SandboxInfo, Usage, Why
from .client import AsyncClient


class AsyncViews:
    """The calls that only look. None of them wakes it."""

    client: AsyncClient

    async def _ready(self) -> SandboxInfo:
        raise NotImplementedError

    async def _at(self, *what: str) -> str:
        raise NotImplementedError

    async def why(self) -> Why:
        """What keeps it awake, and when it will sleep."""
        return decode(Why, await self.client.http.json("GET", await self._at("why")))

    async def ledger(self, *, after: int = -1) -> Sequence[LedgerEntry]:
        """Every sleep and wake, with cause and latency, oldest first."""
        return decode_all(LedgerEntry, await self.client.http.pages(await self._at("ledger"), {"after": after}))

    async def metrics(self, *, memory: bool = False) -> Metrics:
        """What it uses now: memory, CPU, processes; with `memory` also how much of it is its own. Does not wake it."""
        query = {"memory": memory or None}
        answer = await self.client.http.json("GET", await self._at("metrics"), query=query)
        return decode(Metrics, {**answer, **(answer.get("usage") or {})})

    async def network(self) -> NetworkReport:
        """What it may reach, what it did, and what was refused. Does not wake it; `update` changes it."""
        return decode(NetworkReport, await self.client.http.json("GET", await self._at("network")))

    async def usage(self, *, start: Optional[datetime] = None, end: Optional[datetime] = None) -> Usage:
        """What it has used in a span of time, this month if not given."""
        info = await self._ready()
        return await self.client.usage(start=start, end=end, sandbox_id=info.id)
