import type { DormouseError, Isolation, SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { NetworkService } from '../network/network-service.ts'
import type { Quarantine } from '../scrub/quarantine.ts'
import type { SandboxSecrets } from '../secrets/sandbox-secrets.ts'
import type { Database } from '../store/database.ts'
import type { IntentRows } from '../store/intent-rows.ts'
import type { LedgerRows } from '../store/ledger-rows.ts'
import type { LineageRows } from '../store/lineage-rows.ts'
import type { MountedVolume, SandboxRow, SandboxRows, VolumeMount } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { VariableRows } from '../store/variable-rows.ts'
import type { TemplateSnapshots } from '../templates/template-catalog.ts'
import type { ForkSpread } from './fork-spread.ts'
import type { MemorySampler } from './memory-sampler.ts'
import type { OwnerQuotas } from './owner-quotas.ts'
import type { Ownership } from './ownership.ts'
import type { SandboxListener } from './sandbox-listener.ts'
import type { Sandboxes } from './sandboxes.ts'
import type { SnapshotsElsewhere } from './snapshots-elsewhere.ts'
import type { StartLimiter } from './start-limiter.ts'

/** What every sandbox works with. */
export interface SandboxDependencies {
  readonly engine: Engine
  /** Of sandboxes whose creator does not say. */
  readonly defaultIsolation: Isolation
  readonly db: Database
  readonly rows: SandboxRows
  readonly snapshots: SnapshotRows
  /** Snapshots of other hosts of the cluster. Set when this host has joined. */
  elsewhere?: SnapshotsElsewhere | undefined
  spread?: ForkSpread | undefined
  readonly variables: VariableRows
  readonly lineage: LineageRows
  readonly intents: IntentRows
  readonly ledger: LedgerRows
  /** All sandboxes of the server. */
  readonly sandboxes: Sandboxes
  readonly quotas: OwnerQuotas
  readonly starts: StartLimiter
  readonly memory: MemorySampler
  readonly quarantine: Quarantine
  readonly network: Pick<
    NetworkService,
    | 'check'
    | 'open'
    | 'keep'
    | 'endAwaited'
    | 'saved'
    | 'connectionsIn'
    | 'copied'
    | 'forked'
    | 'lossOf'
    | 'lostByCopies'
    | 'thawed'
    | 'parkedOf'
    | 'change'
    | 'shut'
    | 'problemOf'
    | 'counters'
    | 'report'
    | 'forget'
  >
  readonly secrets: Pick<SandboxSecrets, 'require' | 'envOf' | 'prepare' | 'forget'>
  readonly volumes: {
    /** Finds the volumes that mounts name. Throws `not_found`. */
    resolve(mounts: readonly VolumeMount[], caller: Caller): readonly MountedVolume[]
  }
  readonly templates: {
    /** The snapshots that sandboxes of a template start from; undefined for templates of the host. */
    snapshotsOf(name: string, owner: string): TemplateSnapshots | undefined
    /** Why a template cannot be used although there is one of this name. */
    notReady(name: string, owner: string): DormouseError | undefined
    /** Fetches a snapshot that another host of the cluster has built. */
    readonly bring?: ((id: SnapshotId, row: Pick<SandboxRow, 'owner'>) => Promise<void>) | undefined
  }
  readonly journal: {
    /** Resolves when the recorded events of runs survive a power cut. Never rejects. */
    sync(): Promise<void>
    /** Counts against the disk limit of the sandbox. */
    bytesOf(id: SandboxId): number
  }
  readonly disk: {
    /** Throws when a sandbox that wrote too much must not wake yet: the host or one of its volumes has no room. */
    requireRoomToWrite(row: SandboxRow): void
    /** A wake needs a few files of its own, even on a full disk. */
    makeRoomToWake(): void
  }
  /** Undefined outside a cluster. Set before recovery. */
  ownership?: Ownership | undefined
  readonly listeners: SandboxListener[]
  /** Work that must be over before the databases are closed. */
  readonly background: Set<Promise<unknown>>
  readonly clock: ServerClock
  readonly log: Log
}
