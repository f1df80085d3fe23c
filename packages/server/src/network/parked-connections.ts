import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Burrow, GateKeeper, ParkedConnections as SavedConnections } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { ConnectionEnds } from './connection-ends.ts'

export interface ParkedConnectionsOptions {
  readonly ends: ConnectionEnds
  readonly log: Log
}

interface Parked {
  readonly expiry: NodeJS.Timeout
  readonly expiresAtMs: number
  saved: { readonly snapshotId: SnapshotId; readonly connections: SavedConnections } | undefined
}

/**
 * The connections of sandboxes that sleep, or move to their next burrow. `ends` has the outside halves; this remembers
 * what the engine needs to continue the inside halves. In memory only: a server that ends takes the connections along.
 */
export class ParkedConnections implements Disposable {
  readonly #options: ParkedConnectionsOptions
  readonly #parked = new Map<SandboxId, Parked>()

  constructor(options: ParkedConnectionsOptions) {
    this.#options = options
  }

  [Symbol.dispose](): void {
    for (const id of [...this.#parked.keys()]) this.forget(id)
  }

  /** `keepAsleepMs` is read when a snapshot is taken. */
  keeperOf(id: SandboxId, keepAsleepMs: () => number): GateKeeper {
    const { ends: all } = this.#options
    return {
      park: async () => {
        const keptMs = keepAsleepMs()
        if (keptMs === 0) return []
        // A frozen sandbox that is saved once more: its connections fit the earlier snapshot only.
        if (this.#parked.has(id)) await all.endParked(id)
        this.forget(id)
        const ends = await all.park(id)
        if (ends.length > 0) this.#parked.set(id, { ...this.#expireAfter(id, keptMs), saved: undefined })
        return ends
      },
      unpark: async () => {
        if (!this.#parked.has(id)) return
        await all.unpark(id)
        this.forget(id)
      },
    }
  }

  /** A snapshot was taken while these connections were parked. */
  save(id: SandboxId, snapshotId: SnapshotId, connections: SavedConnections): void {
    const parked = this.#parked.get(id)
    if (parked !== undefined) parked.saved = { snapshotId, connections }
  }

  /** What can continue in a burrow that is restored from this snapshot. */
  savedIn(id: SandboxId, snapshotId: SnapshotId): SavedConnections | undefined {
    const saved = this.#parked.get(id)?.saved
    return saved?.snapshotId === snapshotId ? saved.connections : undefined
  }

  describe(id: SandboxId): { readonly count: number; readonly leftMs: number } | undefined {
    const parked = this.#parked.get(id)
    const count = parked?.saved?.connections.length ?? 0
    return parked === undefined || count === 0
      ? undefined
      : { count, leftMs: parked.expiresAtMs - performance.now() }
  }

  /** The sandbox is awake in this burrow: its connections continue there, or end. */
  async resume(id: SandboxId, burrow: Burrow): Promise<void> {
    const ends = burrow.takeEnds()
    if (ends.length === 0 && !this.#parked.has(id)) return
    this.forget(id)
    await this.#options.ends.resume(id, burrow, ends)
  }

  forget(id: SandboxId): void {
    clearTimeout(this.#parked.get(id)?.expiry)
    this.#parked.delete(id)
  }

  #expireAfter(id: SandboxId, keptMs: number): Pick<Parked, 'expiry' | 'expiresAtMs'> {
    const expire = () => {
      this.#parked.delete(id)
      this.#options.ends
        .endParked(id)
        .catch((error: unknown) =>
          this.#options.log.error({ sandboxId: id, err: error }, 'parked connections were not ended'),
        )
    }
    return { expiry: setTimeout(expire, keptMs).unref(), expiresAtMs: performance.now() + keptMs }
  }
}
