import type { SandboxId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'
import type { NetworkService } from '../network/network-service.ts'
import type { Quarantine } from '../scrub/quarantine.ts'
import type { SandboxSecrets } from '../secrets/sandbox-secrets.ts'
import type { Database } from '../store/database.ts'
import type { IntentRows } from '../store/intent-rows.ts'
import type { LedgerRows, NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow, SandboxRows } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { TemplateSnapshots } from '../templates/template-service.ts'
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
  /** Its processes ended although nobody asked, and what they were doing with them. May be told more than once. */
  lost?(row: SandboxRow): void
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
  readonly quarantine: Quarantine
  readonly intents: IntentRows
  readonly ledger: LedgerRows
  readonly admission: Admission
  readonly memory: MemoryLooks
  readonly network: NetworkService
  readonly secrets: SandboxSecrets
  readonly listeners: LifecycleListener[]
  /** What sandboxes of a template start from that this owner has made. */
  readonly templateSnapshots: (name: string, owner: string) => TemplateSnapshots | undefined
  /** Settles when what runs have said so far is on disk. Never rejects. */
  readonly syncRuns: () => Promise<void>
  /** What the journal keeps of a sandbox's runs: it is on its disk too. */
  readonly journalBytes: (id: SandboxId) => number
  /** Throws why a sandbox that has written too much must not wake now: the host or one of its volumes has no room. */
  readonly requireRoomToWrite: (row: SandboxRow) => void
  /** A wake needs a few files of its own, also on a full disk. */
  readonly makeRoomToWake: () => void
  /** What goes on in the background and must be over before the databases are closed. */
  readonly background: Set<Promise<unknown>>
  readonly clock: ServerClock
  readonly log: Log
}
