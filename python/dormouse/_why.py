"""Why a sandbox is awake, and what happened to its memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence

from ._damage import SandboxDamage


@dataclass(frozen=True)
class Work:
    kind: str
    what: str
    since: datetime


@dataclass(frozen=True)
class CannotSleep:
    reason: str
    retry_at: datetime


@dataclass(frozen=True)
class Checkpoint:
    """Of a sandbox that is saved every so often. `refused`: why the last attempt failed."""

    last_at: Optional[datetime] = None
    pause_ms: Optional[float] = None
    next_at: Optional[datetime] = None
    refused: Optional[str] = None


@dataclass(frozen=True)
class MemoryNotice:
    """Why memory matters now. `event` is `memory_high`, `out_of_memory` or `paused`."""

    event: str
    at: datetime
    limit_bytes: int
    peak_bytes: int
    message: str


@dataclass(frozen=True)
class CopiedProgram:
    """A program without the guard: its memory is copied at every sleep and wake."""

    program: str
    bytes: int


@dataclass(frozen=True)
class Why:
    """What keeps a sandbox awake, and when it will sleep."""

    state: str
    summary: str
    tier: Optional[str] = None
    work: Sequence[Work] = ()
    sleeps_at: Optional[datetime] = None
    stores_at: Optional[datetime] = None
    expires_at: Optional[datetime] = None
    wakes_at: Optional[datetime] = None
    cannot_sleep: Optional[CannotSleep] = None
    checkpoint: Optional[Checkpoint] = None
    memory: Optional[MemoryNotice] = None
    copied: Sequence[CopiedProgram] = ()
    damage: Optional[SandboxDamage] = None

    def __str__(self) -> str:
        return self.summary
