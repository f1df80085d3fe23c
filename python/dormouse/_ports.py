"""What listens inside a sandbox, as the server tells it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import List



@dataclass(frozen=True)
class Port:
    port: int
    is_listening: bool
    # What is bound to. Only loopback and every address can be reached.
    addresses: List[str]
    # "private": with a key or a link. "public": anybody who knows the address.
    access: str
    # Where it is reached from outside. A request wakes the sandbox.
    url: str


@dataclass(frozen=True)
class PortLink:
    """Opens a port without a key, for a while."""

    url: str
    expires_at: datetime
