import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Language, RunEvent, SnapshotId } from '@dormouse/contracts'
import type {
  SandboxAnswer,
  SandboxMetricsAnswer,
  SecretAnswer,
  SnapshotAnswer,
  TemplateAnswer,
  TemplateReady,
  TemplateStep,
  UploadAnswer,
  VolumeAnswer,
} from '@dormouse/contracts/http'
import type { Guest } from '@dormouse/engine'
import type { ItemStore } from './items.ts'
import type { RecordStore } from './sandbox/record.ts'

/** The services of a Dormouse server that this package translates to. The server's own classes fit these shapes. */
export interface Backend {
  readonly access: {
    /** Reads `Bearer <key>`. Throws `unauthorized`. */
    authenticate(authorization: string | undefined): Key
    /** Counts one request. Throws `rate_limited`. */
    checkRate(key: Key): void
  }
  readonly sandboxes: BackendSandboxes
  readonly runs: BackendRuns
  readonly templates: BackendTemplates
  readonly uploads: BackendUploads
  readonly volumes: BackendVolumes
  readonly secrets: BackendSecrets
  readonly records: RecordStore
  readonly items: ItemStore
  readonly policyDefaults: PolicyDefaults
  readonly defaultLimits: (caller: Caller) => SandboxAnswer['limits']
  /** The domain below which ports have host names. */
  readonly domain: string | undefined
  /** Forwards a request to a port inside. Throws before the answer has started, or never. */
  readonly forward: (request: ForwardRequest) => Promise<void>
  readonly log: { info(fields: object, message: string): void; error(fields: object, message: string): void }
}

export interface Caller {
  readonly keyId: string
  readonly isAdmin: boolean
}

export interface Key extends Caller {
  readonly name: string
  readonly scopes: readonly string[]
  readonly revoked: AbortSignal
}

/** The caller for requests that a token of one sandbox authorizes. */
export const SERVER: Caller = { keyId: 'server', isAdmin: true }

export interface ForwardRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** For an upgrade request: the bytes after its head. */
  readonly head: Buffer | undefined
  readonly sandbox: BackendSandbox
  readonly port: number
  /** The `Host` that the program inside gets. Default: that of the request. */
  readonly host?: string | undefined
}

type Cause = 'run' | 'file' | 'process' | 'context' | 'resume' | 'port'

export interface Use {
  readonly cause: Cause
  readonly what: string
  readonly signal?: AbortSignal | undefined
}

export interface BackendSandbox {
  readonly id: string
  view(): SandboxAnswer
  use<Value>(options: Use, work: (guest: Guest) => Promise<Value>): Promise<Value>
  attach<Item>(options: Use, open: (guest: Guest) => AsyncIterable<Item>): AsyncGenerator<Item>
  standby(options: { tier: 'frozen' | 'stored'; cause: 'asked' }): Promise<SandboxAnswer>
  resume(cause: 'resume'): Promise<SandboxAnswer>
  fork(request: { count: number; reseed: boolean; signal?: AbortSignal }): Promise<readonly SandboxAnswer[]>
  snapshot(options: { name: string | undefined; kind: 'full' | 'files' }): Promise<SnapshotAnswer>
  rollback(to: string): Promise<SandboxAnswer>
  update(change: PolicyChange): Promise<SandboxAnswer>
  delete(): Promise<void>
  metrics(options: { withMemory: boolean }): Promise<SandboxMetricsAnswer>
  ledger(options: { after?: number; limit: number }): Page<LedgerEntry>
}

/** Something that happened to a sandbox. */
export interface LedgerEntry {
  readonly at: string
  readonly event: string
  readonly cause?: string | undefined
  readonly detail?: string | undefined
}

type Expires = NonNullable<SandboxAnswer['expires']>
type Network = Pick<SandboxAnswer['network'], 'mode' | 'allow' | 'deny'>

export interface PolicyChange {
  readonly expires?: Expires | undefined
  readonly network?: Network
}

export interface PolicyDefaults {
  readonly idleTimeoutMs: number
  readonly storeAfterMs: number
  readonly maxBackgroundMs: number
  readonly network: Network
  readonly connections: SandboxAnswer['connections']
}

export interface CreateRequest extends PolicyDefaults {
  readonly template: string
  readonly snapshotId?: SnapshotId | undefined
  readonly name: undefined
  readonly env: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, string>>
  readonly limits: SandboxAnswer['limits']
  readonly volumes: SandboxAnswer['volumes']
  readonly secrets: readonly string[]
  readonly expires: Expires | undefined
  readonly wakeOnTimer: boolean
  readonly atMemoryLimit: 'kill' | 'pause'
  readonly checkpointEveryMs: number
  /** Default: the setting of the server. */
  readonly isolation?: 'process' | 'microvm'
  readonly ephemeral: boolean
}

interface PageQuery {
  readonly limit: number
  readonly cursor?: string
}

export interface Page<Item> {
  readonly items: readonly Item[]
  readonly nextCursor?: string | undefined
}

export interface BackendSandboxes {
  create(
    request: CreateRequest,
    caller: Caller,
    signal?: AbortSignal,
  ): Promise<{ readonly sandbox: BackendSandbox }>
  /** Throws `not_found`, also for sandboxes of others. */
  get(id: string, caller: Caller): BackendSandbox
  list(query: PageQuery, caller: Caller): Page<SandboxAnswer>
  listSnapshots(query: PageQuery & { sandboxId?: string }, caller: Caller): Page<SnapshotAnswer>
  getSnapshot(ref: string, caller: Caller): SnapshotAnswer
  limitsOfSnapshot(ref: string, caller: Caller): Promise<Partial<SandboxAnswer['limits']>>
  deleteSnapshot(ref: string, caller: Caller): Promise<void>
}

export interface BackendRun {
  readonly runId: string
  events(options?: { signal?: AbortSignal }): AsyncIterable<RunEvent>
}

export interface BackendRuns {
  start(
    sandbox: BackendSandbox,
    request: { code: string; language: Language; context?: string | undefined },
  ): Promise<BackendRun>
  interrupt(sandbox: BackendSandbox, runId: string): Promise<unknown>
}

export interface BuildDescription {
  readonly name: string
  readonly description?: string
  readonly from?: string
  readonly network?: Network
  readonly packages: readonly string[]
  readonly pip: readonly string[]
  readonly commands: readonly string[]
  readonly preload: readonly string[]
  readonly recipe?: {
    readonly image?: string
    readonly registryAuth?: { readonly username: string; readonly password: string }
    readonly steps: readonly TemplateStep[]
    readonly start?: string
    readonly ready?: TemplateReady
    /** Whether the command of an image with a health check is started without `start` and `ready`. */
    readonly startsServices?: boolean
  }
}

export interface LogLine {
  readonly at: number
  readonly text: string
}

export interface BackendUploads {
  /** Throws `too_large`, `no_space`. */
  put(pieces: AsyncIterable<Buffer>, caller: Caller): Promise<UploadAnswer>
  /** Throws `not_found`. */
  find(id: string, caller: Caller): Promise<unknown>
}

export interface BackendTemplates {
  list(query: PageQuery, caller: Caller): Promise<Page<TemplateAnswer>>
  /** Throws `template_not_found`. */
  get(name: string, caller: Caller): Promise<TemplateAnswer>
  build(description: BuildDescription, caller: Caller): Promise<TemplateAnswer>
  /** Lines of the build as they come, until it ends. */
  log(name: string, after: number, caller: Caller, signal: AbortSignal): Promise<AsyncIterable<LogLine>>
  fromSnapshot(request: { name: string; snapshotId: string }, caller: Caller): Promise<TemplateAnswer>
  delete(name: string, caller: Caller): Promise<void>
}

export interface BackendVolumes {
  create(request: { name: string }, caller: Caller): Promise<VolumeAnswer>
  list(query: PageQuery, caller: Caller): Page<VolumeAnswer>
  get(name: string, caller: Caller): Promise<VolumeAnswer>
  delete(name: string, caller: Caller): Promise<void>
}

export interface BackendSecrets {
  create(request: { name: string; value: string; domains: readonly string[] }, caller: Caller): SecretAnswer
  list(query: PageQuery, caller: Caller): Page<SecretAnswer>
  get(name: string, caller: Caller): SecretAnswer
  update(name: string, change: { value?: string }, caller: Caller): Promise<SecretAnswer>
  delete(name: string, options: { force: boolean }, caller: Caller): Promise<void>
}
