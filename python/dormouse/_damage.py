"""What is known to be damaged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence


@dataclass(frozen=True)
class SnapshotDamage:
    reason: str
    found_at: datetime


@dataclass(frozen=True)
class SandboxDamage:
    """The state that a sandbox would come back with is damaged: it is not woken from it."""

    snapshot_id: str
    reason: str
    found_at: datetime
    # The newest older snapshot that is not known to be damaged.
    rollback_to: Optional[str] = None


@dataclass(frozen=True)
class DamagedSnapshot:
    snapshot_id: str
    sandbox_id: str
    reason: str
    found_at: datetime


@dataclass(frozen=True)
class DamagedTemplate:
    template: str
    reason: str
    found_at: datetime


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
    damaged_snapshots: Sequence[DamagedSnapshot] = ()
    damaged_templates: Sequence[DamagedTemplate] = ()
    # While it runs.
    progress: Optional[ScrubProgress] = None
    began_at: Optional[datetime] = None
    finished_at: Optional[datetime] = None
