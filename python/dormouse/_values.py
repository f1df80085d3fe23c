"""What the server returns about sandboxes, files, processes and the rest. Names and units are those of the HTTP API."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Mapping, Optional, Sequence, Union

from ._arguments import milliseconds
from ._json import decode, decode_all, format_time, given, parse_time
from ._damage import SandboxDamage, SnapshotDamage
from ._template_builder import TemplateBuilder
from ._network import ConnectionPolicy, Denied, NetworkCounters, NetworkInfo


@dataclass(frozen=True)
class Expires:
    """When the server deletes a sandbox: seconds after its creation, seconds after its last use, or at a time.

    With the action "standby" it is put to standby instead, once."""

    after: Optional[float] = None
    idle: Optional[float] = None
    at: Optional[datetime] = None
    action: str = "delete"

    def body(self) -> dict[str, Any]:
        return given(
            after_ms=milliseconds("expires.after", self.after),
            idle_ms=milliseconds("expires.idle", self.idle),
            at=format_time(self.at),
            action=self.action,
        )

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Expires:
        after, idle, at = answer.get("afterMs"), answer.get("idleMs"), answer.get("at")
        return cls(
            None if after is None else after / 1000,
            None if idle is None else idle / 1000,
            None if at is None else parse_time(at),
            answer["action"],
        )


@dataclass(frozen=True)
class VolumeMount:
    volume: str
    path: str
    read_only: bool = False

    def body(self) -> dict[str, Any]:
        return given(volume=self.volume, path=self.path, read_only=self.read_only)


# `{"/data": "datasets"}`, or mounts with options.
Mounts = Union[Mapping[str, str], Sequence[VolumeMount]]


def mounts_body(volumes: Optional[Mounts]) -> Optional[list[dict[str, Any]]]:
    if volumes is None:
        return None
    if isinstance(volumes, Mapping):
        volumes = [VolumeMount(volume, path) for path, volume in volumes.items()]
    return [mount.body() for mount in volumes]


@dataclass(frozen=True)
class Limits:
    memory_bytes: int
    cpus: float
    pids: int
    disk_bytes: int
    files: int


@dataclass(frozen=True)
class SandboxInfo:
    id: str
    state: str
    template: str
    idle_timeout_ms: int
    store_after_ms: int
    max_background_ms: int
    # At its memory limit: `kill` a process, or `pause` the sandbox until the limit is raised.
    at_memory_limit: str
    ephemeral: bool
    created_at: datetime
    last_active_at: datetime
    state_since: datetime
    limits: Limits
    network: Optional[NetworkInfo] = None
    connections: Optional[ConnectionPolicy] = None
    name: Optional[str] = None
    # While asleep: `frozen` in memory, or `stored` on disk only.
    tier: Optional[str] = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires: Optional[Expires] = None
    volumes: Sequence[VolumeMount] = ()
    secrets: Sequence[str] = ()  # names of those that it may use
    head_snapshot_id: Optional[str] = None
    forked_from: Optional[str] = None
    # The host or the processes of the sandbox died: its state after this time is lost.
    lost_since: Optional[datetime] = None
    isolation: str = "process"
    wake_on_timer: bool = False
    # How often it is saved while it runs. 0: never.
    checkpoint_every_ms: int = 0
    wakes_at: Optional[datetime] = None  # When a timer wakes it, while it sleeps.
    # The snapshot that it would wake from is damaged; the server does not restore it.
    damage: Optional[SandboxDamage] = None
    # In a cluster: the snapshot that it wakes from is in the depot, so that another host can wake it.
    replicated: Optional[bool] = None


@dataclass(frozen=True)
class LedgerEntry:
    seq: int
    event: str
    cause: str
    at: datetime
    tier: Optional[str] = None
    latency_ms: Optional[float] = None
    bytes: Optional[int] = None
    detail: Optional[str] = None
    denied: Optional[Denied] = None


@dataclass(frozen=True)
class Memory:
    """How much memory of a sandbox is its own."""

    # Pages that it wrote itself.
    private_bytes: int
    # Pages of mapped files, and memory shared with its snapshot and its siblings.
    shared_bytes: int
    # Its share when every page is divided by the number of processes that map it.
    proportional_bytes: int
    # When it was measured: the server caches the measurement.
    at: datetime


@dataclass(frozen=True)
class Metrics:
    """What a sandbox uses now. The numbers are None while it is only on disk."""

    sandbox_id: str
    state: str
    tier: Optional[str] = None
    memory_bytes: Optional[int] = None
    memory_peak_bytes: Optional[int] = None
    cpu_ms: Optional[float] = None
    pids: Optional[int] = None
    oom_kills: Optional[int] = None
    network: Optional[NetworkCounters] = None
    # If the caller asked for it.
    memory: Optional[Memory] = None


@dataclass(frozen=True)
class RunInfo:
    run_id: str
    sandbox_id: str
    context: str
    language: str
    state: str
    started_at: datetime
    finished_at: Optional[datetime] = None
    exit_code: Optional[int] = None
    # Its beginning if `is_code_cut`. None if an older server started the run.
    code: Optional[str] = None
    is_code_cut: bool = False


@dataclass(frozen=True)
class ContextInfo:
    name: str
    language: str
    user: str
    state: str
    # How often its kernel was replaced. Each time its variables were lost.
    restarts: int
    pid: Optional[int] = None


@dataclass(frozen=True)
class FileStat:
    path: str
    name: str
    # file, directory, symlink, fifo, socket or device
    type: str
    size_bytes: int
    # Permissions in octal.
    mode: str
    uid: int
    gid: int
    user: str
    group: str
    modified_at: datetime
    # The target of a symbolic link.
    target: Optional[str] = None


@dataclass(frozen=True)
class FileChange:
    """`type` is created, modified, deleted, moved, or overflow: changes in or below `path` were lost, list it again."""

    type: str
    path: str
    # The path before the move.
    from_path: Optional[str] = None


@dataclass(frozen=True)
class ProcessInfo:
    # Never used again. The pid may be.
    process_id: str
    pid: int
    command: str
    user: str
    # running or exited
    state: str
    pty: bool
    started_at: datetime
    exit_code: Optional[int] = None


@dataclass(frozen=True)
class SnapshotBytes:
    images: int
    memory: int


@dataclass(frozen=True)
class Snapshot:
    id: str
    sandbox_id: str
    # full: files and memory. files: only files.
    kind: str
    template: str
    # The sandbox wakes from it, and the server deletes both together.
    is_head: bool
    bytes: SnapshotBytes
    created_at: datetime
    name: Optional[str] = None
    parent_id: Optional[str] = None
    # It is damaged; the server does not restore it.
    damage: Optional[SnapshotDamage] = None


@dataclass(frozen=True)
class Material:
    """A package that a template was built from."""

    # deb or wheel
    type: str
    name: str
    version: str
    # Of a deb.
    architecture: Optional[str] = None
    # Of the file that it was installed from; None if that is not known.
    sha256: Optional[str] = None


@dataclass(frozen=True)
class MaterialsSummary:
    count: int
    # Of the whole list: templates with the same digest were built from the same packages.
    sha256: str


@dataclass(frozen=True)
class TemplateMaterials:
    count: int
    sha256: str
    items: Sequence[Material] = ()


@dataclass(frozen=True)
class Template:
    name: str
    # building, ready or failed
    state: str
    # built_in, host (built there with `dormouse template build`), description or snapshot
    source: str
    created_at: datetime
    description: Optional[str] = None
    # The template that it is based on.
    from_: Optional[str] = None
    # The container image at the bottom.
    image: Optional[str] = None
    # The default for its sandboxes, if it has one: process or microvm.
    isolation: Optional[str] = None
    failed_step: Optional[str] = None
    # What the build does now.
    progress: Optional[str] = None
    snapshot_id: Optional[str] = None
    bytes: Optional[int] = None
    # None if they were not recorded.
    materials: Optional[MaterialsSummary] = None
    # The end of the log of the build, and why it failed.
    log_tail: Optional[str] = None
    error: Optional[str] = None

    @staticmethod
    def from_image(image: str) -> TemplateBuilder:
        """Describes a template on a container image: `python:3.13`, `registry.example.com/team/web:2`."""
        return TemplateBuilder({"image": image})

    @staticmethod
    def from_archive(path: str) -> TemplateBuilder:
        """On an image on this machine: an archive (`docker save`, or OCI) or the directory of an OCI layout."""
        return TemplateBuilder({}, archive=path)

    @staticmethod
    def from_template(name: str) -> TemplateBuilder:
        return TemplateBuilder({"from": name})

    @staticmethod
    def from_dockerfile(dockerfile: str) -> TemplateBuilder:
        """`dockerfile` is its text."""
        return TemplateBuilder({"dockerfile": dockerfile})


@dataclass(frozen=True)
class Secret:
    name: str
    # What sandboxes have instead of the value.
    placeholder: str
    created_at: datetime
    updated_at: datetime
    domains: Sequence[str] = ()
    # Ids of sandboxes that use it.
    used_by: Sequence[str] = ()


@dataclass(frozen=True)
class SshKey:
    name: str
    # The API key that it belongs to. It gives access to the sandboxes of that key.
    key_id: str
    type: str
    # As `ssh-keygen -l` shows it.
    fingerprint: str
    public_key: str
    # Whether its holder has proved to have the private key. Before that it gives no access.
    confirmed: bool
    created_at: datetime
    # The user name with which its holder connects once to confirm it; None after that.
    confirm_as: Optional[str] = None


@dataclass(frozen=True)
class SshEndpoint:
    # The address it listens on: `0.0.0.0` or `::` for all.
    host: str
    port: int
    # For `known_hosts`.
    host_key: str
    fingerprint: str


@dataclass(frozen=True)
class UsageNumbers:
    running_seconds: float
    cpu_seconds: float
    memory_gb_seconds: float
    stored_gb_hours: float
    wakes: int
    forks: int
    # About how many tokens kept variables saved: a tool without state sends the code of all earlier runs again.
    saved_tokens: int
    cost: float
    # What the same history would have cost without standby.
    always_on_cost: float
    sandbox_id: Optional[str] = None
    key_id: Optional[str] = None
    name: Optional[str] = None
    deleted: Optional[bool] = None


@dataclass(frozen=True)
class Usage:
    start: datetime
    end: datetime
    currency: str
    total: UsageNumbers
    sandboxes: Sequence[UsageNumbers]
    keys: Sequence[UsageNumbers] = ()

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Usage:
        return cls(
            start=parse_time(answer["from"]),
            end=parse_time(answer["to"]),
            currency=answer["currency"],
            total=decode(UsageNumbers, answer["total"]),
            sandboxes=decode_all(UsageNumbers, answer["sandboxes"]),
            keys=decode_all(UsageNumbers, answer.get("keys", ())),
        )
