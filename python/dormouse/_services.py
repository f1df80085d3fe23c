"""Services as the server describes them, and requests about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Mapping, Optional, Sequence, Union

from ._arguments import invalid_argument, milliseconds
from ._json import given
from ._unset import Unset


@dataclass(frozen=True)
class ServiceVersion:
    version: int
    # building, starting, ready or failed
    state: str
    is_current: bool
    created_at: datetime
    # `client.templates.log` has the log of its build.
    template: Optional[str] = None
    # Why it failed. The version before it keeps serving.
    error: Optional[str] = None
    # process or microvm, if the request named one.
    isolation: Optional[str] = None


@dataclass(frozen=True)
class ServiceReplica:
    sandbox_id: str
    version: int
    # starting, ready, restarting, failed or draining
    state: str
    is_awake: bool
    # Requests under way.
    requests: int
    restarts: int


@dataclass(frozen=True)
class ServiceReplicas:
    min: int
    max: int
    concurrency: int
    idle_ms: int
    items: Sequence[ServiceReplica] = ()


@dataclass(frozen=True)
class Service:
    id: str
    name: str
    created_at: datetime
    port: int
    public: bool
    # Where it serves: by host name, and by path at the address of the server.
    url: str
    path_url: str
    replicas: ServiceReplicas
    # always or never
    restart: str
    keep_versions: int
    # The version that serves. None before the first is ready.
    version: Optional[int] = None
    health: Optional[Mapping[str, Any]] = None
    # Newest first.
    versions: Sequence[ServiceVersion] = ()
    # How often its replicas are saved while they run. 0: never.
    checkpoint_every_ms: int = 0


@dataclass(frozen=True)
class ServiceLogLine:
    seq: int
    at: datetime
    # The replica.
    sandbox_id: str
    version: int
    # stdout, stderr, or system: what the server did with the replica.
    stream: str
    text: str


def settings_body(
    *,
    public: Optional[bool],
    min_replicas: Optional[int],
    max_replicas: Optional[int],
    concurrency: Optional[int],
    replica_idle: Optional[float],
    health: Union[str, None, Unset],
    health_interval: Optional[float],
    health_timeout: Optional[float],
    health_failures: Optional[int],
    restart: Optional[str],
    checkpoint_every: Optional[float],
    keep_versions: Optional[int],
) -> dict[str, Any]:
    replicas = given(
        min=min_replicas,
        max=max_replicas,
        concurrency=concurrency,
        idle_ms=milliseconds("replica_idle", replica_idle),
    )
    checks = given(
        path=None if isinstance(health, Unset) else health,
        interval_ms=milliseconds("health_interval", health_interval),
        timeout_ms=milliseconds("health_timeout", health_timeout),
        failures=health_failures,
    )
    body = given(
        public=public,
        replicas=replicas or None,
        health=checks or None,
        restart=restart,
        checkpoint_every_ms=milliseconds("checkpoint_every", checkpoint_every),
        keep_versions=keep_versions,
    )
    if health is not None:
        return body
    if checks:
        raise invalid_argument("health", "None means no checks, and contradicts the other arguments about them")
    return {**body, "health": None}
