import type { SandboxId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { NetworkService } from '../network/network-service.ts'
import type { Quarantine } from '../scrub/quarantine.ts'
import type { SandboxSecrets } from '../secrets/sandbox-secrets.ts'
import type { Database } from '../store/database.ts'
import type { IntentRows } from '../store/intent-rows.ts'
import type { LedgerRows } from '../store/ledger-rows.ts'
import type { SandboxRow, SandboxRows } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { TemplateSnapshots } from '../templates/template-service.ts'
import type { Admission } from './admission.ts'
import type { MemoryLooks } from './memory-looks.ts'
import type { SandboxListener } from './sandbox-listener.ts'

/** What every sandbox works with. */
export interface SandboxDependencies {
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
  readonly listeners: SandboxListener[]
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
