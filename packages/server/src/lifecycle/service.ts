import type {
  RunEvent,
  RunId,
  RunResult,
  SandboxId,
  SandboxState,
  SnapshotId,
  VolumeId,
} from '@dormouse/contracts'
import type { BurrowMemory, BurrowUsage, Guest } from '@dormouse/engine'
import type { SandboxDamage } from '../scrub/quarantine.ts'

/** Who asks: an API key, or the server itself. */
export interface Caller {
  readonly keyId: string
  /** Sees everybody's sandboxes. */
  readonly isAdmin: boolean
}

export type Tier = 'frozen' | 'stored'

export interface Expiry {
  readonly afterMs?: number
  readonly idleMs?: number
  /** ISO 8601. */
  readonly at?: string
  readonly action: 'delete'
}

export interface SandboxLimits {
  readonly memoryBytes: number
  readonly cpus: number
  readonly pids: number
  /** What it may have written before it is put to standby. */
  readonly diskBytes: number
  /** Files, directories and links that it may have made; likewise. */
  readonly files: number
}

export interface VolumeMount {
  readonly volume: string
  readonly path: string
  readonly readOnly: boolean
}

/** With the volume that was meant, whatever is called so later. */
export interface MountedVolume extends VolumeMount {
  readonly volumeId: VolumeId
}

/** What it may reach; rules as they were written. */
export interface NetworkPolicy {
  readonly mode: 'none' | 'public' | 'allow'
  readonly allow: readonly string[]
}

export interface NetworkCounters {
  readonly connections: number
  readonly denied: number
  readonly names: number
  readonly bytesOut: number
  readonly bytesIn: number
}

/** Something that the policy refused, and how often. */
export interface Denied {
  readonly protocol: 'tcp' | 'dns'
  readonly name?: string | undefined
  readonly address?: string | undefined
  readonly port?: number | undefined
  readonly reason: string
  readonly count: number
}

export interface DeniedView extends Denied {
  readonly at: string
}

export interface NetworkView extends NetworkPolicy {
  /** Why it reaches nothing at all now. */
  readonly unavailable: string | undefined
}

export interface NetworkReport extends NetworkView {
  readonly counters: NetworkCounters
  /** Newest first. */
  readonly denied: readonly DeniedView[]
}

/** What may be changed while it lives. */
export interface SandboxPolicy {
  readonly name: string | undefined
  readonly metadata: Readonly<Record<string, string>>
  /** 0: never by itself. */
  readonly idleTimeoutMs: number
  /** How long it stays frozen in memory before it is only on disk. */
  readonly storeAfterMs: number
  readonly expires: Expiry | undefined
  readonly ephemeral: boolean
  readonly network: NetworkPolicy
  /** Names of its owner's. */
  readonly secrets: readonly string[]
}

export interface CreateSandbox extends SandboxPolicy {
  readonly template: string
  readonly env: Readonly<Record<string, string>>
  readonly limits: SandboxLimits
  readonly volumes: readonly VolumeMount[]
  /** With a name: an existing sandbox of that name is the answer instead of an error. */
  readonly getOrCreate?: boolean
}

/** A sandbox as the API shows it. */
export interface SandboxView extends SandboxPolicy {
  readonly id: SandboxId
  readonly state: SandboxState
  readonly tier: Tier | undefined
  readonly template: string
  readonly limits: SandboxLimits
  readonly volumes: readonly VolumeMount[]
  readonly network: NetworkView
  readonly createdAt: string
  readonly lastActiveAt: string
  readonly stateSince: string
  /** The state that it would come back with. */
  readonly headSnapshotId: SnapshotId | undefined
  /** The sandbox that this one was forked from. */
  readonly forkedFrom: SandboxId | undefined
  /** The host or its processes died: what happened after this moment is gone. Cleared by the next standby. */
  readonly lostSince: string | undefined
  /** The state that it would come back with is damaged: it is not woken from it. */
  readonly damage: SandboxDamage | undefined
}

export type WakeCause =
  | 'run'
  | 'file'
  | 'process'
  | 'context'
  | 'resume'
  | 'fork'
  | 'rollback'
  | 'port'
  | 'ssh'
export type StandbyCause = 'asked' | 'disk' | 'idle' | 'memory' | 'shutdown' | 'store_after'

export interface UseOptions {
  readonly cause: WakeCause
  /** Named in `why` while it lasts. */
  readonly what: string
  readonly signal?: AbortSignal | undefined
}

/** One thing that keeps a sandbox awake. */
export interface WorkView {
  readonly kind: 'run' | 'call' | 'stream' | 'connection' | 'cpu' | 'hold' | 'recent'
  readonly what: string
  readonly since: string
}

export interface Why {
  readonly state: SandboxState
  readonly tier: Tier | undefined
  /** In words. */
  readonly summary: string
  readonly work: readonly WorkView[]
  /** When it will sleep if nothing happens; undefined when it will not, or sleeps already. */
  readonly sleepsAt: string | undefined
  /** When it will only be on disk. */
  readonly storesAt: string | undefined
  readonly expiresAt: string | undefined
  /** The last attempt to save it was refused. */
  readonly cannotSleep: { readonly reason: string; readonly retryAt: string } | undefined
  /** It cannot be woken: what it would come back from is damaged. */
  readonly damage: SandboxDamage | undefined
}

export interface MemoryView extends BurrowMemory {
  readonly at: string
}

export interface LedgerEntry {
  readonly seq: number
  readonly at: string
  readonly event:
    | 'created'
    | 'slept'
    | 'stored'
    | 'woke'
    | 'forked'
    | 'snapshot'
    | 'rolled_back'
    | 'adopted'
    | 'lost'
    | 'refused'
    | 'failed'
    | 'changed'
    | 'denied'
    | 'damaged'
  readonly cause: string
  readonly tier?: Tier
  readonly latencyMs?: number
  readonly bytes?: number
  readonly detail?: string
  readonly denied?: Denied
}

export interface SnapshotView {
  readonly id: SnapshotId
  readonly sandboxId: SandboxId
  readonly name: string | undefined
  readonly kind: 'full' | 'files'
  readonly parentId: SnapshotId | undefined
  readonly template: string
  readonly createdAt: string
  /** `head` snapshots belong to the lifecycle of their sandbox and cannot be deleted by hand. */
  readonly isHead: boolean
  /** It is known to be damaged, and nothing is restored from it. */
  readonly damage: { readonly reason: string; readonly foundAt: string } | undefined
  readonly bytes: { readonly images: number; readonly memory: number }
}

export interface Page<Item> {
  readonly items: readonly Item[]
  readonly nextCursor: string | undefined
}

export interface ListSandboxes {
  readonly state?: SandboxState
  readonly template?: string
  readonly name?: string
  /** All must match. */
  readonly metadata?: Readonly<Record<string, string>>
  readonly limit: number
  readonly cursor?: string
}

/** One sandbox. All methods may be called at any time, in any number; they are ordered here. */
export interface Sandbox {
  readonly id: SandboxId
  view(): SandboxView
  /**
   * Does something inside: wakes it if need be (callers share one wake) and keeps it awake and in this burrow until `work` has settled.
   * For calls that end soon. What may take long uses `attach`.
   */
  use<Value>(options: UseOptions, work: (guest: Guest) => Promise<Value>): Promise<Value>
  /**
   * Follows something inside for as long as it takes, across burrows: when the sandbox moves to another one (standby, fork, rollback),
   * `open` is called again with the new guest and must go on after what was seen. Keeps it awake, but does not stand in the way of
   * a standby that somebody asks for; it goes on when the sandbox is awake again, and does not wake it then by itself.
   */
  attach<Item>(options: UseOptions, open: (guest: Guest) => AsyncIterable<Item>): AsyncIterable<Item>
  /** Keeps it awake until disposed, or `untilMs` has passed. */
  hold(what: string, untilMs?: number, kind?: 'hold' | 'connection'): Disposable
  usage(): Promise<BurrowUsage | undefined>
  /** How much of its memory is its own, as of the last look. undefined while nothing of it is in memory. */
  memory(): Promise<MemoryView | undefined>
  /** Answers when that depth is reached. Again is fine. */
  standby(options: { tier: Tier; cause: StandbyCause }): Promise<SandboxView>
  resume(cause: WakeCause): Promise<SandboxView>
  fork(options: {
    count: number
    reseed: boolean
    signal?: AbortSignal | undefined
  }): Promise<readonly SandboxView[]>
  snapshot(options: { name: string | undefined; kind: 'full' | 'files' }): Promise<SnapshotView>
  rollback(snapshotId: SnapshotId): Promise<SandboxView>
  update(change: Partial<SandboxPolicy> & { limits?: Partial<SandboxLimits> }): Promise<SandboxView>
  delete(): Promise<void>
  /** What it may reach, what it did, and what was refused. */
  network(): NetworkReport
  why(): Promise<Why>
  ledger(options: { after?: number; limit: number }): Page<LedgerEntry>
}

export interface Sandboxes {
  /** Post: it runs, and is on disk. A refusal leaves nothing behind. `isNew` is false when `getOrCreate` found one. */
  create(
    request: CreateSandbox,
    caller: Caller,
    signal?: AbortSignal,
  ): Promise<{ sandbox: Sandbox; isNew: boolean }>
  /** By id or, for the caller's own, by name. Throws `not_found`, also for what belongs to others. */
  get(idOrName: string, caller: Caller): Sandbox
  list(query: ListSandboxes, caller: Caller): Page<SandboxView>
  listSnapshots(
    query: { sandboxId?: string; limit: number; cursor?: string },
    caller: Caller,
  ): Page<SnapshotView>
  getSnapshot(id: string, caller: Caller): SnapshotView
  /** Reads all of it and wakes nothing. Throws `snapshot_unusable` when it could not be restored here. */
  verifySnapshot(id: string, caller: Caller): Promise<void>
  deleteSnapshot(id: string, caller: Caller): Promise<void>
}

export interface StartRunRequest {
  readonly code: string
  readonly language: 'python' | 'bash'
  readonly context?: string | undefined
  readonly timeoutMs?: number | undefined
  readonly idempotencyKey?: string | undefined
}

export interface RunView {
  readonly runId: RunId
  readonly sandboxId: SandboxId
  readonly context: string
  readonly language: 'python' | 'bash'
  readonly state: 'queued' | 'running' | 'finished' | 'lost'
  readonly startedAt: string
  readonly finishedAt: string | undefined
  readonly exitCode: number | undefined
}

/** A run under way or over. Ending a reader never ends the run. */
export interface Run {
  readonly runId: RunId
  view(): RunView
  /** From the journal, then as they come, until `exit`; across standby and restarts of the server. */
  events(options?: {
    after?: number
    follow?: boolean
    signal?: AbortSignal | undefined
  }): AsyncIterable<RunEvent>
  result(signal?: AbortSignal): Promise<RunResult>
}

export interface Runs {
  /** With an `idempotencyKey` seen before in this sandbox: that run, and nothing is started. Another body for the same key is a `conflict`. */
  start(sandbox: Sandbox, request: StartRunRequest): Promise<Run>
  get(sandbox: Sandbox, runId: string): Run
  list(sandbox: Sandbox, query: { limit: number; cursor?: string }): Page<RunView>
  interrupt(sandbox: Sandbox, runId: string): Promise<'interrupting' | 'cancelled' | 'finished'>
}
