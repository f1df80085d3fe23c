"""How a server and its host are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence


@dataclass(frozen=True)
class HostCheck:
    id: str
    title: str
    # `ok`, `warn` or `fail`
    status: str
    # What was seen on this host.
    found: str
    # What sandboxes use it for.
    meaning: str
    # How to fix it.
    mend: Optional[str] = None


@dataclass(frozen=True)
class HostRoom:
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class ServerReport:
    version: str
    started_at: datetime
    can_run_sandboxes: bool
    # Of the data directory.
    disk: HostRoom
    # Of the host.
    memory: HostRoom
    checks: Sequence[HostCheck] = ()


@dataclass(frozen=True)
class ServerLogLine:
    seq: int
    # One JSON object, as the log has it.
    text: str
