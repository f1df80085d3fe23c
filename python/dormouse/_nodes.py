"""Hosts of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence

from ._server import HostRoom


@dataclass(frozen=True)
class NodeLoad:
    # Sandboxes that run, and all sandboxes of the node.
    running: int
    sandboxes: int
    # The load average of the last minute.
    cpu: float


@dataclass(frozen=True)
class NotMoved:
    sandbox_id: str
    reason: str


@dataclass(frozen=True)
class NodeDrain:
    # How many sandboxes a drain has to move, has moved, and cannot move.
    total: int
    moved: int
    left: int
    # The first 20 that cannot move, and why.
    stays: Sequence[NotMoved] = ()


@dataclass(frozen=True)
class NodeCpu:
    model: str
    # Hosts with the same one have the same CPU features.
    fingerprint: str


@dataclass(frozen=True)
class Node:
    """A host of the cluster. A server outside a cluster is its only node."""

    id: str
    # Where the other hosts reach it.
    address: str
    # alive, lost (it has not renewed its lease) or left (its server was stopped in order).
    state: str
    # It has answered this request.
    is_self: bool
    # It gets no new sandboxes.
    is_cordoned: bool
    version: str
    started_at: datetime
    arch: str
    kernel: str
    cpus: float
    load: NodeLoad
    memory: HostRoom
    disk: HostRoom
    # How far a drain is; until the node is uncordoned.
    drain: Optional[NodeDrain] = None
    # None for a host of an earlier version.
    cpu: Optional[NodeCpu] = None


@dataclass(frozen=True)
class Moved:
    sandbox_id: str
    # The node that the sandbox wakes on.
    node: str


@dataclass(frozen=True)
class Drained:
    moved: Sequence[Moved] = ()
    # Sandboxes that stay where they are, and why.
    left: Sequence[NotMoved] = ()
