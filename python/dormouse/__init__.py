"""Sandboxes that never forget.

    from dormouse import Sandbox

    with Sandbox() as s:
        s.run_code("x = 41")
        print(s.run_code("x + 1").text)
"""

from __future__ import annotations

from ._async.client import AsyncClient
from ._async.commands import AsyncCommand, AsyncCommands, AsyncEvents
from ._async.fan_out import RaceOutcome as AsyncRaceOutcome
from ._async.files import AsyncFiles, AsyncFileStream
from ._async.jobs import AsyncJobEvents, AsyncJobs
from ._async.ports import AsyncPorts
from ._async.pty import AsyncPty, AsyncPtys
from ._async.resources import (
    AsyncContexts,
    AsyncRuns,
    AsyncScrub,
    AsyncSecrets,
    AsyncSnapshots,
    AsyncSshKeys,
    AsyncVolumes,
)
from ._async.run_stream import AsyncRunStream
from ._async.sandbox import AsyncSandbox
from ._async.nodes import AsyncNodes
from ._async.schedules import AsyncSchedules
from ._async.services import AsyncServices
from ._async.templates import AsyncTemplates
from ._async.server import AsyncServer
from ._async.variables import AsyncVariables
from ._async.watch import AsyncWatch
from ._async.webhooks import AsyncWebhooks
from ._completions import Completions
from ._nodes import Drained, Moved, Node, NodeCpu, NodeDrain, NodeLoad, NotMoved
from ._damage import DamagedSnapshot, DamagedTemplate, SandboxDamage, ScrubProgress, ScrubStatus, SnapshotDamage
from ._errors import (
    AuthenticationError,
    ConflictError,
    DormouseError,
    InvalidArgumentError,
    LimitError,
    NotFoundError,
    RunFailedError,
    RunTimeoutError,
    ServerUnreachableError,
)
from ._execution import Event, Execution, RunError, Truncated
from ._fan_out import MapOutcome, RaceEntry
from ._jobs import Job, JobEvent, JobOrigin, JobRetry, Task, TaskCounts
from ._network import ConnectionPolicy, Denied, FailedLookup, NetworkCounters, NetworkInfo, NetworkReport
from ._ports import Port, PortLink, PortResponse
from ._process import CommandResult, PtyExit
from ._result import Result
from ._schedules import Firing, Schedule
from ._services import Service, ServiceLogLine, ServiceReplica, ServiceReplicas, ServiceVersion
from ._sync.client import Client
from ._sync.commands import Command, Commands, Events
from ._sync.fan_out import RaceOutcome
from ._sync.files import Files, FileStream
from ._sync.jobs import JobEvents, Jobs
from ._sync.ports import Ports
from ._sync.pty import Pty, Ptys
from ._sync.nodes import Nodes
from ._sync.resources import Contexts, Runs, Scrub, Secrets, Snapshots, SshKeys, Volumes
from ._sync.run_stream import RunStream
from ._sync.sandbox import Sandbox
from ._sync.schedules import Schedules
from ._sync.services import Services
from ._sync.templates import Templates
from ._sync.server import Server
from ._sync.variables import Variables
from ._sync.watch import Watch
from ._sync.webhooks import Webhooks
from ._template_builder import TemplateBuilder
from ._values import (
    ContextInfo,
    Expires,
    FileChange,
    FileStat,
    LedgerEntry,
    Limits,
    Material,
    MaterialsSummary,
    Memory,
    Metrics,
    ProcessInfo,
    RunInfo,
    SandboxInfo,
    Secret,
    Snapshot,
    SshEndpoint,
    SshKey,
    Template,
    TemplateMaterials,
    Usage,
    UsageNumbers,
    VolumeMount,
)
from ._server import HostCheck, HostRoom, ServerLogLine, ServerReport
from ._variables import (
    ContextVariables,
    Variable,
    VariableColumn,
    VariableDetail,
    VariableImage,
    VariableList,
    VariableRow,
    VariableTable,
)
from ._volume import Volume, VolumeShare
from ._why import Checkpoint, MemoryNotice, Why
from ._webhooks import Delivery, Webhook
from ._version import VERSION as __version__

__all__ = [
    "AsyncClient",
    "AsyncCommand",
    "AsyncCommands",
    "AsyncContexts",
    "AsyncEvents",
    "AsyncFileStream",
    "AsyncFiles",
    "AsyncJobEvents",
    "AsyncJobs",
    "AsyncPorts",
    "AsyncPty",
    "AsyncPtys",
    "AsyncRaceOutcome",
    "AsyncRunStream",
    "AsyncRuns",
    "AsyncSandbox",
    "AsyncSchedules",
    "AsyncScrub",
    "AsyncSecrets",
    "AsyncServices",
    "AsyncSnapshots",
    "AsyncSshKeys",
    "AsyncTemplates",
    "AsyncVolumes",
    "AsyncServer",
    "AsyncVariables",
    "AsyncWatch",
    "AsyncWebhooks",
    "AuthenticationError",
    "Checkpoint",
    "Client",
    "Command",
    "CommandResult",
    "Commands",
    "ConflictError",
    "ConnectionPolicy",
    "Completions",
    "ContextInfo",
    "ContextVariables",
    "Contexts",
    "DamagedSnapshot",
    "DamagedTemplate",
    "Delivery",
    "Denied",
    "DormouseError",
    "Drained",
    "Event",
    "Events",
    "Execution",
    "Expires",
    "FailedLookup",
    "FileChange",
    "FileStat",
    "FileStream",
    "Files",
    "Firing",
    "InvalidArgumentError",
    "Job",
    "JobEvent",
    "JobEvents",
    "JobOrigin",
    "JobRetry",
    "Jobs",
    "LedgerEntry",
    "LimitError",
    "Limits",
    "Material",
    "MaterialsSummary",
    "MapOutcome",
    "MemoryNotice",
    "Memory",
    "Metrics",
    "NetworkCounters",
    "NetworkInfo",
    "NetworkReport",
    "NotMoved",
    "NodeCpu",
    "NodeDrain",
    "NodeLoad",
    "Node",
    "Nodes",
    "NotFoundError",
    "Port",
    "PortLink",
    "PortResponse",
    "Ports",
    "ProcessInfo",
    "Pty",
    "PtyExit",
    "Ptys",
    "RaceEntry",
    "RaceOutcome",
    "Result",
    "RunError",
    "RunFailedError",
    "RunInfo",
    "RunStream",
    "RunTimeoutError",
    "Runs",
    "Sandbox",
    "SandboxDamage",
    "SandboxInfo",
    "Schedule",
    "Schedules",
    "Scrub",
    "ScrubProgress",
    "ScrubStatus",
    "Secret",
    "Secrets",
    "Service",
    "ServiceLogLine",
    "ServiceReplica",
    "ServiceReplicas",
    "ServiceVersion",
    "Services",
    "ServerUnreachableError",
    "Snapshot",
    "SnapshotDamage",
    "HostCheck",
    "HostRoom",
    "Server",
    "ServerLogLine",
    "ServerReport",
    "Snapshots",
    "SshEndpoint",
    "SshKey",
    "SshKeys",
    "Task",
    "TaskCounts",
    "Template",
    "TemplateBuilder",
    "TemplateMaterials",
    "Templates",
    "Truncated",
    "Usage",
    "UsageNumbers",
    "Variable",
    "VariableColumn",
    "VariableDetail",
    "VariableImage",
    "VariableList",
    "VariableRow",
    "VariableTable",
    "Variables",
    "Volume",
    "VolumeShare",
    "VolumeMount",
    "Volumes",
    "Watch",
    "Webhook",
    "Webhooks",
    "Why",
    "__version__",
    "AsyncNodes",
    "Moved",
]
