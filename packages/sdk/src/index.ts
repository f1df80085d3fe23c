export { packContext } from './build-context/pack-context.ts'
export type { Completions, Context } from './contexts.ts'
export {
  Dormouse,
  type DormouseOptions,
  type Health,
  type ListSandboxes,
  type SandboxInfo,
  type UsageOptions,
} from './dormouse.ts'
export { DormouseError, type DormouseErrorCode, RunFailedError, RunTimeoutError } from './error.ts'
export type { Candidate, Candidates } from './fan-out/candidates.ts'
export type { Children } from './fan-out/children.ts'
export type { MapOptions, MapOutcome, MapWork } from './fan-out/map.ts'
export type { RaceEntry, RaceOptions, RaceOutcome, Score } from './fan-out/race.ts'
export type { DirectoryOptions } from './files/directories.ts'
export type {
  FileChange,
  FileContent,
  FileOptions,
  FileStat,
  ReadOptions,
  WriteOptions,
} from './files/files.ts'
export type { Page, Pages } from './http/pages.ts'
export type { CreateJob, FollowJob, Job, JobEvent, ListTasks, Task } from './jobs.ts'
export type { Drained, Node } from './nodes.ts'
export type { Abortable, CallOptions } from './options.ts'
export type { Port, PortAccess, PortFetchOptions, PortLink } from './ports.ts'
export type { Command } from './processes/command.ts'
export type {
  CommandLine,
  OutputListeners,
  ProcessEvent,
  ProcessInfo,
  RunCommandOptions,
  StartOptions,
} from './processes/command-options.ts'
export type { CommandResult } from './processes/command-result.ts'
export type { Result } from './runs/result.ts'
export type { RunEvent } from './runs/run-event.ts'
export type { RunOnceOptions } from './runs/run-once.ts'
export type { InputQuestion, ResultData, RunOptions, RunStreamOptions } from './runs/run-options.ts'
export type { RunResult } from './runs/run-result.ts'
export type { Run } from './runs/runs.ts'
export {
  type ClientOptions,
  type CreateOptions,
  type LedgerEntry,
  type NetworkMode,
  type NetworkOptions,
  type NetworkReport,
  Sandbox,
} from './sandbox.ts'
export type { CreateSchedule, Firing, Schedule, UpdateSchedule } from './schedules.ts'
export type { ScrubStatus } from './scrub.ts'
export type { CreateSecret, Secret, UpdateSecret } from './secrets.ts'
export type { ServerLogLine, ServerReport } from './server.ts'
export type { EventsOptions, Overview, SandboxActivity, ServerEvent } from './server-events.ts'
export type {
  DeployOptions,
  DeployService,
  Service,
  ServiceLogLine,
  ServiceLogsOptions,
  UpdateService,
} from './services.ts'
export type { Snapshot, SnapshotRef } from './snapshots.ts'
export type { AddSshKey, SshEndpoint, SshKey } from './ssh-keys.ts'
export { type CopyOptions, Template, TemplateBuilder } from './template-builder.ts'
export type { BuildOptions, CreateTemplate, TemplateLogLine, TemplateMaterials, Upload } from './templates.ts'
export type { Pty } from './terminals/pty.ts'
export type { ConnectPtyOptions, CreatePtyOptions } from './terminals/ptys.ts'
export type { Socket, SocketConstructor, SocketEvent } from './terminals/socket.ts'
export type { PtyExit } from './terminals/terminal-connection.ts'
export type { ReadVariableOptions, VariableDetail, VariableList } from './variables.ts'
export type { CloneVolume, CreateVolume, UpdateVolume, Volume, VolumeFiles } from './volumes.ts'
export type { CreateWebhook, Delivery, UpdateWebhook, Webhook, WebhookWithSecret } from './webhooks.ts'
