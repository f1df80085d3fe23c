import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type {
  NetworkReportAnswer,
  SandboxAnswer,
  SandboxMetricsAnswer,
  SnapshotAnswer,
  WhyAnswer,
} from '@dormouse/contracts/http'
import type { BurrowUsage, Guest } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { LedgerEntry } from '../store/ledger-rows.ts'
import type { Page } from '../store/page.ts'
import type { SandboxLimits, SandboxPolicy, SandboxQuery, Tier, VolumeMount } from '../store/sandbox-rows.ts'

export type MemoryView = NonNullable<SandboxMetricsAnswer['memory']>
export type WorkView = WhyAnswer['work'][number]

export interface CreateSandbox extends SandboxPolicy {
  readonly template: string
  readonly env: Readonly<Record<string, string>>
  readonly limits: SandboxLimits
  readonly volumes: readonly VolumeMount[]
  /** With a name: an existing sandbox of that name is the answer instead of an error. */
  readonly getOrCreate?: boolean
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

/** One sandbox. All methods may be called at any time, in any number; they are ordered here. */
export interface Sandbox {
  readonly id: SandboxId
  view(): SandboxAnswer
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
  standby(options: { tier: Tier; cause: StandbyCause }): Promise<SandboxAnswer>
  resume(cause: WakeCause): Promise<SandboxAnswer>
  fork(options: {
    count: number
    reseed: boolean
    signal?: AbortSignal | undefined
  }): Promise<readonly SandboxAnswer[]>
  snapshot(options: { name: string | undefined; kind: 'full' | 'files' }): Promise<SnapshotAnswer>
  rollback(snapshotId: SnapshotId): Promise<SandboxAnswer>
  update(change: Partial<SandboxPolicy> & { limits?: Partial<SandboxLimits> }): Promise<SandboxAnswer>
  delete(): Promise<void>
  /** What it may reach, what it did, and what was refused. */
  network(): NetworkReportAnswer
  why(): Promise<WhyAnswer>
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
  list(query: SandboxQuery, caller: Caller): Page<SandboxAnswer>
  listSnapshots(
    query: { sandboxId?: string; limit: number; cursor?: string },
    caller: Caller,
  ): Page<SnapshotAnswer>
  getSnapshot(id: string, caller: Caller): SnapshotAnswer
  /** Reads all of it and wakes nothing. Throws `snapshot_unusable` when it could not be restored here. */
  verifySnapshot(id: string, caller: Caller): Promise<void>
  deleteSnapshot(id: string, caller: Caller): Promise<void>
}
