"""Ports of a sandbox."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, List, Mapping


@dataclass(frozen=True)
class Port:
    port: int
    is_listening: bool
    # The addresses that it listens on. Only loopback and `0.0.0.0` or `::` can be reached.
    addresses: List[str]
    # "private": needs a key or a link. "public": open to everyone who knows the URL.
    access: str
    # Its URL from outside, for browsers. A request wakes the sandbox.
    url: str
    # The same port by path, for programs, which cannot resolve every `*.localhost` name.
    path_url: str


@dataclass(frozen=True)
class PortLink:
    """A URL that opens a port without a key until it expires."""

    url: str
    path_url: str
    expires_at: datetime


@dataclass(frozen=True)
class PortResponse:
    """What a program in a sandbox answered."""

    status: int
    # Names are matched in any case.
    headers: Mapping[str, str]
    content: bytes

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.content)
