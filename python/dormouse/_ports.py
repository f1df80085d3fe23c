"""Ports of a sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import List



@dataclass(frozen=True)
class Port:
    port: int
    is_listening: bool
    # The addresses that it listens on. Only loopback and `0.0.0.0` or `::` can be reached.
    addresses: List[str]
    # "private": needs a key or a link. "public": open to everyone who knows the URL.
    access: str
    # Its URL from outside. A request wakes the sandbox.
    url: str


@dataclass(frozen=True)
class PortLink:
    """A URL that opens a port without a key until it expires."""

    url: str
    expires_at: datetime
