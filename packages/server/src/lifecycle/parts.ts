import type { SnapshotId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { NetworkService } from '../network/network-service.ts'
import type { SandboxSecrets } from '../secrets/sandbox-secrets.ts'
import type { Database } from '../store/database.ts'
import type { IntentRows } from '../store/intent-rows.ts'
import type { LedgerRows, NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow, SandboxRows } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { Admission } from './admission.ts'
import type { MemoryLooks } from './memory-looks.ts'
import type { SandboxBody } from './sandbox-body.ts'
import type { Tier } from './service.ts'

export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What other parts of the server want to know. Listeners must not throw and must not wait. */
export interface LifecycleListener {
  /** It runs, in a burrow that is new to this process. `isContinued`: with everything that the one before knew. */
  awake?(body: SandboxBody, how: { readonly isContinued: boolean }): void
  /** Before the child runs. */
  forked?(parent: SandboxRow, child: SandboxRow): void
  deleted?(row: SandboxRow): void
  recorded?(row: SandboxRow, entry: NewLedgerEntry): void
  /** What was recorded before it began is done. */
  woke?(row: SandboxRow, wake: { readonly tier: Tier; readonly latencyMs: number }): void
  /** It has been running for this much longer. */
  ran?(row: SandboxRow, ms: number): void
  /** What the processes of a sandbox used since the last sample. */
  sampled?(row: SandboxRow, sample: { ms: number; cpuMs: number; memoryBytes: number }): void
}

/** What every sandbox works with. */
export interface LifecycleParts {
  readonly engine: Engine
  readonly db: Database
  readonly rows: SandboxRows
  readonly snapshots: SnapshotRows
  readonly intents: IntentRows
  readonly ledger: LedgerRows
  readonly admission: Admission
  readonly memory: MemoryLooks
  readonly network: NetworkService
  readonly secrets: SandboxSecrets
  readonly listeners: LifecycleListener[]
  /** The snapshot that a template which was made from one stands for. */
  readonly templateSnapshot: (name: string, owner: string) => SnapshotId | undefined
  /** Settles when what runs have said so far is on disk. Never rejects. */
  readonly syncRuns: () => Promise<void>
  /** What goes on in the background and must be over before the databases are closed. */
  readonly background: Set<Promise<unknown>>
  readonly now: () => number
  readonly log: Log
}
