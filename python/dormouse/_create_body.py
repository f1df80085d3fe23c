"""The body of a request that creates a sandbox."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from ._json import given, milliseconds
from ._network import Network, network_body
from ._values import Expires, Mounts, mounts_body

# If a program dies inside its `with` block, the server deletes the sandbox after an hour without use.
ABANDONED_SECONDS = 3600.0


def create_body(
    *,
    template: Optional[str] = None,
    name: Optional[str] = None,
    persistent: bool = False,
    metadata: Optional[Mapping[str, str]] = None,
    env: Optional[Mapping[str, str]] = None,
    idle_timeout: Optional[float] = None,
    store_after: Optional[float] = None,
    expires: Optional[Expires] = None,
    memory_bytes: Optional[int] = None,
    cpus: Optional[float] = None,
    pids: Optional[int] = None,
    disk_bytes: Optional[int] = None,
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
        name=name,
        metadata=metadata,
        env=env,
        idle_timeout_ms=milliseconds(idle_timeout),
        store_after_ms=milliseconds(store_after),
        expires=None if expires is None else expires.body(),
        limits=limits_body(memory_bytes, cpus, pids, disk_bytes, files),
        volumes=mounts_body(volumes),
        network=network_body(network),
        secrets=secrets,
        ephemeral=ephemeral or None,
    )


def limits_body(
    memory_bytes: Optional[int],
    cpus: Optional[float],
    pids: Optional[int],
    disk_bytes: Optional[int],
    files: Optional[int],
) -> Optional[dict[str, Any]]:
    return given(memory_bytes=memory_bytes, cpus=cpus, pids=pids, disk_bytes=disk_bytes, files=files) or None
