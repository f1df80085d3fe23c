// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
export type { CompletionsAnswer, ContextAnswer, ContextListAnswer, CreateContextBody } from './contexts.ts'
export type { ErrorAnswer } from './error.ts'
export type { ServerEventAnswer } from './events.ts'
export type { FamilyAnswer } from './family.ts'
export type {
  FileChangeAnswer,
  FileListAnswer,
  FileStatAnswer,
  MakeDirectoryBody,
  MoveFileBody,
} from './files.ts'
export type {
  CreateJobBody,
  JobAnswer,
  JobEventAnswer,
  JobPageAnswer,
  TaskAnswer,
  TaskPageAnswer,
} from './jobs.ts'
export type {
  ForkAnswer,
  ForkBody,
  HoldAnswer,
  LedgerPageAnswer,
  PromoteBody,
  SandboxMetricsAnswer,
  StandbyBody,
  WhyAnswer,
} from './lifecycle.ts'
export type { NetworkBody, NetworkMode, NetworkReportAnswer } from './network.ts'
export type { DrainedAnswer, MovedAnswer, NodeAnswer, NodesAnswer } from './nodes.ts'
export type { ActivityAnswer, OverviewAnswer } from './overview.ts'
export type {
  CreatePortLinkBody,
  PortAccess,
  PortAnswer,
  PortLinkAnswer,
  PortListAnswer,
  WaitForPortBody,
} from './ports.ts'
export type {
  ProcessAnswer,
  ProcessEventAnswer,
  ProcessListAnswer,
  ProcessResultAnswer,
  StartProcessBody,
} from './processes.ts'
export type {
  InterruptAnswer,
  RunAnswer,
  RunBody,
  RunEventAnswer,
  RunOnceBody,
  RunPageAnswer,
  RunResultAnswer,
  RunWithResultAnswer,
} from './runs.ts'
export type { CreateSandboxBody, SandboxAnswer, SandboxPageAnswer, UpdateSandboxBody } from './sandboxes.ts'
export type {
  CreateScheduleBody,
  FiringAnswer,
  FiringListAnswer,
  ScheduleAnswer,
  SchedulePageAnswer,
  UpdateScheduleBody,
} from './schedules.ts'
export type { ScrubAnswer } from './scrub.ts'
export type { CreateSecretBody, SecretAnswer, SecretPageAnswer, UpdateSecretBody } from './secrets.ts'
export type { ServerLogLineAnswer, ServerReportAnswer } from './server.ts'
export type {
  DeployServiceBody,
  RollbackServiceBody,
  ServiceAnswer,
  ServiceLogLineAnswer,
  ServicePageAnswer,
  UpdateServiceBody,
} from './services.ts'
export type { SessionAnswer, SignInLinkAnswer } from './sessions.ts'
export type { CreateSnapshotBody, SnapshotAnswer, SnapshotPageAnswer } from './snapshots.ts'
export type { AddSshKeyBody, SshEndpointAnswer, SshKeyAnswer, SshKeyPageAnswer } from './ssh-keys.ts'
export type {
  CreateTemplateBody,
  TemplateAnswer,
  TemplateLogLineAnswer,
  TemplateMaterialsAnswer,
  TemplatePageAnswer,
  UploadAnswer,
} from './templates.ts'
export type { UsageAnswer } from './usage.ts'
export type { VariableDetailAnswer, VariablesAnswer } from './variables.ts'
export type {
  CloneVolumeBody,
  CreateVolumeBody,
  UpdateVolumeBody,
  VolumeAnswer,
  VolumePageAnswer,
} from './volumes.ts'
export type {
  CreateWebhookBody,
  DeliveryAnswer,
  DeliveryListAnswer,
  UpdateWebhookBody,
  WebhookAnswer,
  WebhookPageAnswer,
  WebhookWithSecretAnswer,
} from './webhooks.ts'
