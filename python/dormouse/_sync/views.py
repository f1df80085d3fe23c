# Written by tools/make_sync.py from _async/views.py: change that one.
"""Reading the state of a sandbox."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Mapping, Optional, Sequence

from .._json import decode, decode_all
from .._network import NetworkReport
from .._values import LedgerEntry, Metrics, SandboxInfo, Usage
from .._why import Why
from .client import Client


class Views:
    """The calls that only read. None of them wakes the sandbox."""

    client: Client

    def _ready(self) -> SandboxInfo:
        raise NotImplementedError

    def _at(self, *what: str) -> str:
        raise NotImplementedError

    def why(self) -> Why:
        """What keeps it awake, and when it will sleep."""
        return decode(Why, self.client.http.json("GET", self._at("why")))

    def tree(self) -> Mapping[str, Any]:
        """The forks and snapshots that share an ancestor with it, as `nodes`, and their memory. Wakes nothing."""
        answer: Mapping[str, Any] = self.client.http.json("GET", self._at("tree"))
        return answer

    def ledger(self, *, after: int = -1) -> Sequence[LedgerEntry]:
        """Every sleep and wake, with cause and latency, oldest first."""
        return decode_all(LedgerEntry, self.client.http.pages(self._at("ledger"), {"after": after}))

    def metrics(self, *, memory: bool = False) -> Metrics:
        """What it uses now: memory, CPU, processes. `memory` adds how much memory is its own."""
        query = {"memory": memory or None}
        answer = self.client.http.json("GET", self._at("metrics"), query=query)
        return decode(Metrics, {**answer, **(answer.get("usage") or {})})

    def network(self) -> NetworkReport:
        """What it may reach, what it reached, and what was refused. `update` changes the policy."""
        return decode(NetworkReport, self.client.http.json("GET", self._at("network")))

    def usage(self, *, start: Optional[datetime] = None, end: Optional[datetime] = None) -> Usage:
        """What it used between `start` and `end`. The default is this month."""
        info = self._ready()
        return self.client.usage(start=start, end=end, sandbox_id=info.id)
