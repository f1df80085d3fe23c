import { setTimeout as sleep } from 'node:timers/promises'
import { Mutex } from '@dormouse/async'
import type { Depot, Replica } from '@dormouse/cluster'
import { hasErrorCode, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { type SnapshotList, snapshotListSchema } from './depot-lists.ts'
import type { OwnedSandboxes } from './owned-sandboxes.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'
import { uploadSnapshot } from './upload-snapshot.ts'

export interface ReplicationOptions {
  readonly depot: Depot
  readonly transfer: SnapshotCarrier
  readonly owned: OwnedSandboxes
  readonly rowOf: (id: SandboxId) => SandboxRow | undefined
  readonly log: Log
}

const RETRY_MS = 2_000

/** Uploads the heads of sleeping sandboxes and the checkpoints of running ones to the depot, one after the other. */
export class Replication {
  readonly #options: ReplicationOptions
  readonly #waiting = new Set<SandboxId>()
  readonly #turn = new Mutex()
  #isClosed = false
  #sentBytes = 0

  constructor(options: ReplicationOptions) {
    this.#options = options
  }

  /** Bytes that were sent to the depot since the server started. */
  get sentBytes(): number {
    return this.#sentBytes
  }

  close(): void {
    this.#isClosed = true
  }

  isReplicated(id: SandboxId): boolean {
    const entry = this.#options.owned.find(id)?.entry
    return entry?.replica !== undefined && entry.replica.snapshotId === this.#options.rowOf(id)?.head
  }

  /** A sandbox may have a head that the depot lacks. */
  schedule(row: SandboxRow): void {
    if (!isPortable(row) || !isToUpload(row) || this.#waiting.has(row.id) || this.isReplicated(row.id)) return
    this.#waiting.add(row.id)
    void this.#untilDone(row.id).finally(() => {
      this.#waiting.delete(row.id)
      // It may have slept again, or have a newer checkpoint, since the last moment.
      const now = this.#options.rowOf(row.id)
      if (now !== undefined && !this.#isClosed) this.schedule(now)
    })
  }

  /** Resolves when the head of the sandbox is in the depot. False when it has another one by then. */
  async replicate(id: SandboxId): Promise<boolean> {
    const { rowOf, owned } = this.#options
    return await this.#turn.run(async () => {
      const row = rowOf(id)
      if (row?.head === undefined || !isPortable(row)) return false
      if (this.isReplicated(id)) return true
      const replica = await this.#upload(row.head, owned.find(id)?.entry.replica)
      await owned.flush(id)
      return await owned.setReplica(id, replica)
    })
  }

  async #untilDone(id: SandboxId): Promise<void> {
    const { rowOf, log } = this.#options
    for (let row = rowOf(id); !this.#isClosed && row !== undefined; row = rowOf(id)) {
      if (!isToUpload(row) || this.isReplicated(id)) return
      try {
        await this.replicate(id)
        if (this.isReplicated(id)) return
      } catch (err) {
        // A snapshot that is gone was replaced by a newer one.
        if (!hasErrorCode(err, 'not_found'))
          log.warn({ sandboxId: id, err }, 'a snapshot is not in the depot yet')
      }
      await sleep(RETRY_MS, undefined, { ref: false })
    }
  }

  async #upload(snapshotId: SnapshotId, before: Replica | undefined): Promise<Replica> {
    // What the entry refers to stays in the depot until the entry refers to the new snapshot.
    const kept = new Map<string, string>()
    if (before !== undefined) for (const { key, list } of await this.#partsOf(before)) kept.set(key, list)
    const { list, needs, bytes, sentBytes } = await uploadSnapshot(this.#options, snapshotId, kept)
    this.#sentBytes += sentBytes
    return { snapshotId, list, createdAt: new Date().toISOString(), needs, bytes }
  }

  async #partsOf({ list }: Replica): Promise<SnapshotList['parts']> {
    const found = await this.#options.depot.findList(list)
    return snapshotListSchema.safeParse(found?.list).data?.parts ?? []
  }
}

/** The head of a sandbox that runs without checkpoints is from before its last wake: its next sleep replaces it. */
function isToUpload({ state, head, checkpointEveryMs }: SandboxRow): boolean {
  return state === 'standby' || (state === 'running' && head !== undefined && checkpointEveryMs > 0)
}

/** Whether snapshots of the sandbox go to the depot, so that other hosts can continue it. */
export function isPortable(row: SandboxRow): boolean {
  return reasonToStay(row) === undefined
}

/** Why a sandbox cannot leave its host; undefined when it can. */
export function reasonToStay({
  volumes,
  ephemeral,
  idleTimeoutMs,
}: Pick<SandboxRow, 'volumes' | 'ephemeral' | 'idleTimeoutMs'>): string | undefined {
  if (volumes.length > 0) {
    const paths = volumes.map(({ path }) => path).join(', ')
    return `it mounts volumes, which stay on their host (${paths})`
  }
  // Tasks of jobs, steps of builds and single runs have such sandboxes: this host deletes them with their use.
  const endsWithUse = ephemeral && idleTimeoutMs === 0
  return endsWithUse ? 'it is ephemeral and never sleeps, so it ends with its use' : undefined
}
