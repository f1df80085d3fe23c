"""Damage that the server has found in what it stores."""

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
    """The snapshot that a sandbox would wake from is damaged. The server does not restore it."""

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
    """The progress and the findings of the scrub, which checks everything that the server stores."""

    # idle or running.
    state: str
    # In all passes so far.
    read_bytes: int
    damaged_snapshots: Sequence[DamagedSnapshot] = ()
    damaged_templates: Sequence[DamagedTemplate] = ()
    # While a pass runs.
    progress: Optional[ScrubProgress] = None
    began_at: Optional[datetime] = None
    finished_at: Optional[datetime] = None
