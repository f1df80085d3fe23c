"""Schedules and their firings, as the server shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Mapping, Optional


@dataclass(frozen=True)
class Firing:
    """One time at which a schedule fired, and what came of it."""

    at: datetime
    state: str
    job_id: Optional[str] = None
    sandbox_id: Optional[str] = None
    run_id: Optional[str] = None
    status: Optional[int] = None
    error: Optional[str] = None
    finished_at: Optional[datetime] = None


@dataclass(frozen=True)
class Schedule:
    name: str
    cron: str
    timezone: str
    missed: str
    enabled: bool
    created_at: datetime
    # As it was given.
    action: Mapping[str, Any] = field(default_factory=dict)
    next_at: Optional[datetime] = None
    last: Optional[Firing] = None
