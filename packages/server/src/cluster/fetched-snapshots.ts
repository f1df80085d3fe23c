import type { KeyedMutex } from '@dormouse/async'
import type { SnapshotId } from '@dormouse/contracts'
import { dropSnapshot } from '../sandbox/drop-snapshot.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'

/** A caller that was told that a snapshot is here needs it within this time. */
const IN_USE_MS = 10 * 60_000

export interface FetchedSnapshotsOptions {
  readonly deps: Pick<SandboxDependencies, 'snapshots' | 'engine' | 'log' | 'clock'>
  /** Whether another host has taken it, and it is in the depot. */
  readonly isFetched: (id: SnapshotId) => boolean
  /** How much of them this host keeps. */
  readonly maxBytes: number
  /** Held while a snapshot is fetched. */
  readonly locks: KeyedMutex
}

/**
 * Kept snapshots that this host has fetched. They are in the depot, so the copies of those that were used least recently
 * go when all of them take more than `maxBytes`. One that was taken here stays until it is deleted.
 */
export class FetchedSnapshots {
  readonly #options: FetchedSnapshotsOptions
  /** By the monotonic clock. What an earlier server has used counts as used when this one started. */
  readonly #usedMs = new Map<SnapshotId, number>()
  readonly #startedMs: number

  constructor(options: FetchedSnapshotsOptions) {
    this.#options = options
    this.#startedMs = options.deps.clock.monotonicMs()
  }

  touch(id: SnapshotId): void {
    this.#usedMs.set(id, this.#options.deps.clock.monotonicMs())
  }

  async trim(): Promise<void> {
    const { deps, isFetched, maxBytes, locks } = this.#options
    const { snapshots } = deps
    const fetched = snapshots.kept().filter(({ id }) => isFetched(id))
    fetched.sort((one, other) => this.#usedAt(one.id) - this.#usedAt(other.id))
    let bytes = fetched.reduce((sum, row) => sum + bytesOf(row), 0)
    for (const row of fetched) {
      if (bytes <= maxBytes) return
      if (!this.#isFree(row.id)) continue
      bytes -= bytesOf(row)
      await locks.run(row.id, async () => {
        // It may have been used while this waited.
        if (!this.#isFree(row.id)) return
        this.#usedMs.delete(row.id)
        // A server that ends in between removes it at its next start: no row keeps it.
        snapshots.unkeep(row.id)
        await dropSnapshot(deps, row.id)
      })
    }
  }

  #usedAt(id: SnapshotId): number {
    return this.#usedMs.get(id) ?? this.#startedMs
  }

  #isFree(id: SnapshotId): boolean {
    const { snapshots, clock } = this.#options.deps
    const isNeeded = snapshots.isHead(id) || snapshots.isTemplate(id) || snapshots.isHeld(id)
    return !isNeeded && clock.monotonicMs() - this.#usedAt(id) > IN_USE_MS
  }
}

function bytesOf({ imageBytes, memoryBytes }: SnapshotRow): number {
  return imageBytes + memoryBytes
}
