"""What a sandbox may reach, what it reached, and what was refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Mapping, Optional, Sequence, Union

# `"public"`, `"none"`, or a list of what it may reach: `["example.com", "*.example.com:443", "203.0.113.0/24:5432"]`, or
# the fields of the API: `{"mode": "public", "deny": ["198.51.100.0/24"]}`.
Network = Union[str, Sequence[str], Mapping[str, Any]]


def network_body(network: Optional[Network]) -> Optional[dict[str, Any]]:
    if network is None:
        return None
    if isinstance(network, Mapping):
        return dict(network)
    return {"mode": network} if isinstance(network, str) else {"mode": "allow", "allow": list(network)}


@dataclass(frozen=True)
class ConnectionPolicy:
    """What happens to connections to the outside while the sandbox sleeps."""

    # How long they are kept. Then they end.
    keep_asleep_ms: int
    # Whether data that arrives on one wakes it.
    wake_on_data: bool


@dataclass(frozen=True)
class NetworkInfo:
    # public, none or allow
    mode: str
    allow: Sequence[str] = ()
    # What the mode public does not open.
    deny: Sequence[str] = ()
    # Why it reaches nothing now, in any mode.
    unavailable: Optional[str] = None


@dataclass(frozen=True)
class Denied:
    """A connection or name look-up that the policy refused, and how often."""

    # tcp or dns
    protocol: str
    reason: str
    count: int
    name: Optional[str] = None
    address: Optional[str] = None
    port: Optional[int] = None
    at: Optional[datetime] = None


@dataclass(frozen=True)
class FailedLookup:
    """A name that the policy allows to look up, but that gave the sandbox no address."""

    name: str
    reason: str
    # The last time.
    at: datetime


@dataclass(frozen=True)
class NetworkCounters:
    connections: int
    denied: int
    names: int
    bytes_out: int
    bytes_in: int


@dataclass(frozen=True)
class NetworkReport(NetworkInfo):
    counters: Optional[NetworkCounters] = None
    # Newest first.
    denied: Sequence[Denied] = ()
    # Newest first. Names that the policy refused are in `denied`.
    failed_lookups: Sequence[FailedLookup] = ()
