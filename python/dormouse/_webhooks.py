"""Webhooks and their deliveries, as the server shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Optional, Sequence


@dataclass(frozen=True)
class Webhook:
    name: str
    url: str
    created_at: datetime
    enabled: bool = True
    events: Sequence[str] = field(default_factory=list)
    sandbox_id: Optional[str] = None
    # Signs deliveries. Only after `create` and `rotate`.
    secret: Optional[str] = None


@dataclass(frozen=True)
class Delivery:
    """One event on its way to a receiver."""

    id: str
    type: str
    seq: int
    state: str
    attempts: int
    created_at: datetime
    status: Optional[int] = None
    error: Optional[str] = None
    next_at: Optional[datetime] = None
    finished_at: Optional[datetime] = None
