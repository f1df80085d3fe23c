"""The body of a request that creates a sandbox."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

from ._arguments import Size, milliseconds, optional_amount, optional_count, parse_size
from ._json import given
from ._network import Network, network_body
from ._values import Expires, Mounts, Snapshot, mounts_body

# If a program dies inside its `with` block, the server deletes the sandbox after an hour without use.
ABANDONED_SECONDS = 3600.0
NEVER_HINT = "0 means that it never goes to sleep by itself."


def create_body(
    *,
    template: Optional[str] = None,
    snapshot: Union[str, Snapshot, None] = None,
    isolation: Optional[str] = None,
    name: Optional[str] = None,
    persistent: bool = False,
    metadata: Optional[Mapping[str, str]] = None,
    env: Optional[Mapping[str, str]] = None,
    idle_timeout: Optional[float] = None,
    store_after: Optional[float] = None,
    max_background: Optional[float] = None,
    wake_on_timer: Optional[bool] = None,
    keep_asleep: Optional[float] = None,
    wake_on_data: Optional[bool] = None,
    at_memory_limit: Optional[str] = None,
    checkpoint_every: Optional[float] = None,
    expires: Optional[Expires] = None,
    memory_bytes: Optional[Size] = None,
    cpus: Optional[float] = None,
    pids: Optional[int] = None,
    disk_bytes: Optional[Size] = None,
    files: Optional[int] = None,
    volumes: Optional[Mounts] = None,
    network: Optional[Network] = None,
    secrets: Optional[Sequence[str]] = None,
    ephemeral: bool = False,
) -> dict[str, Any]:
    if not persistent and expires is None:
        expires = Expires(idle=ABANDONED_SECONDS)
    return given(
        template=template,
        snapshot=None if snapshot is None else snapshot_ref(snapshot),
        isolation=isolation,
        name=name,
        metadata=metadata,
        env=env,
        idle_timeout_ms=milliseconds("idle_timeout", idle_timeout, hint=NEVER_HINT),
        store_after_ms=milliseconds("store_after", store_after),
        max_background_ms=milliseconds("max_background", max_background),
        wake_on_timer=wake_on_timer,
        connections=connections_body(keep_asleep, wake_on_data),
        at_memory_limit=at_memory_limit,
        checkpoint_every_ms=milliseconds("checkpoint_every", checkpoint_every),
        expires=None if expires is None else expires.body(),
        limits=limits_body(memory_bytes, cpus, pids, disk_bytes, files),
        volumes=mounts_body(volumes),
        network=network_body(network),
        secrets=secrets,
        ephemeral=ephemeral or None,
    )


def connections_body(keep_asleep: Optional[float], wake_on_data: Optional[bool]) -> Optional[dict[str, Any]]:
    connections = given(keep_asleep_ms=milliseconds("keep_asleep", keep_asleep), wake_on_data=wake_on_data)
    return connections or None


def limits_body(
    memory_bytes: Optional[Size],
    cpus: Optional[float],
    pids: Optional[int],
    disk_bytes: Optional[Size],
    files: Optional[int],
) -> Optional[dict[str, Any]]:
    limits = given(
        memory_bytes=parse_size("memory_bytes", memory_bytes),
        cpus=optional_amount("cpus", cpus),
        pids=optional_count("pids", pids),
        disk_bytes=parse_size("disk_bytes", disk_bytes),
        files=optional_count("files", files),
    )
    return limits or None


def snapshot_ref(snapshot: Union[str, Snapshot]) -> str:
    return snapshot if isinstance(snapshot, str) else snapshot.id
