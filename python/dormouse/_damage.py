"""What is known to be damaged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence

from ._answers import converted, read, read_all, when


@dataclass(frozen=True)
class SnapshotDamage:
    reason: str
    found_at: datetime = converted(when)


@dataclass(frozen=True)
class SandboxDamage:
    """The state that a sandbox would come back with is damaged: it is not woken from it."""

    snapshot_id: str
    reason: str
    found_at: datetime = converted(when)
    # The newest older snapshot that is not known to be damaged.
    rollback_to: Optional[str] = None


@dataclass(frozen=True)
class DamagedSnapshot:
    snapshot_id: str
    sandbox_id: str
    reason: str
    found_at: datetime = converted(when)


@dataclass(frozen=True)
class DamagedTemplate:
    template: str
    reason: str
    found_at: datetime = converted(when)


@dataclass(frozen=True)
class ScrubProgress:
    parts: int
    checked_parts: int


@dataclass(frozen=True)
class ScrubStatus:
    """How far the check of all that a server stores has come, and what it found."""

    # idle or running.
    state: str
    # By all passes so far.
    read_bytes: int
    damaged_snapshots: Sequence[DamagedSnapshot] = converted(lambda all: read_all(DamagedSnapshot, all), default=())
    damaged_templates: Sequence[DamagedTemplate] = converted(lambda all: read_all(DamagedTemplate, all), default=())
    # While it runs.
    progress: Optional[ScrubProgress] = converted(lambda said: read(ScrubProgress, said), default=None)
    began_at: Optional[datetime] = converted(when, default=None)
    finished_at: Optional[datetime] = converted(when, default=None)
