import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Burrow, GateKeeper, ParkedConnections as SavedConnections } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { ConnectionEnds } from './connection-ends.ts'
import type { LostConnections } from './lost-connections.ts'

export interface ParkedConnectionsOptions {
  readonly ends: ConnectionEnds
  readonly lost: LostConnections
  readonly log: Log
}

interface Parked {
  readonly expiry: NodeJS.Timeout
  readonly expiresAtMs: number
  /** What they connect to, by the number of their end. */
  readonly to: ReadonlyMap<number, string>
  saved: { readonly snapshotId: SnapshotId; readonly connections: SavedConnections } | undefined
}

/**
 * The connections of sandboxes that sleep, or move to their next burrow. `ends` has the outside halves; this remembers
 * what the engine needs to continue the inside halves. In memory only: a server that ends takes the connections along.
 */
export class ParkedConnections implements Disposable {
  readonly #options: ParkedConnectionsOptions
  readonly #parked = new Map<SandboxId, Parked>()
  /** What the ends that were parked last connect to. A fork is recorded after its parent continues. */
  readonly #lastParked = new Map<SandboxId, ReadonlyMap<number, string>>()
  /** Those that could not be parked then. They end with their burrow. */
  readonly #unkept = new Map<SandboxId, readonly string[]>()

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
        if (keptMs === 0) {
          this.#unkept.set(id, await all.listOpen(id))
          return []
        }
        // A frozen sandbox that is saved once more: its connections fit the earlier snapshot only.
        const earlier = this.#parked.get(id)
        if (earlier !== undefined) {
          await all.endParked(id)
          this.#options.lost.add(id, 'sleep', [...earlier.to.values()])
        }
        this.forget(id)
        const ends = await all.park(id)
        const to = new Map(ends.map((end) => [end.id, end.to]))
        this.#lastParked.set(id, to)
        this.#unkept.set(id, await all.listOpen(id))
        if (to.size > 0) this.#parked.set(id, { ...this.#expireAfter(id, keptMs), to, saved: undefined })
        return ends
      },
      unpark: async () => {
        this.#unkept.delete(id)
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
    this.remember(id, snapshotId, connections)
  }

  /** The snapshot contains these connections; copies of it lose them. Those that were not kept end now. */
  remember(id: SandboxId, snapshotId: SnapshotId, connections: SavedConnections): void {
    const kept = connections.flatMap((each) => this.#lastParked.get(id)?.get(each.id) ?? [])
    this.#lastParked.delete(id)
    this.#options.lost.saved(id, snapshotId, kept)
    this.#options.lost.add(id, 'sleep', this.#unkept.get(id) ?? [])
    this.#unkept.delete(id)
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
    const parked = this.#parked.get(id)
    if (ends.length === 0 && parked === undefined) return
    const continued = new Set(ends.map((end) => end.id))
    // Those that are not in the snapshot were closed by the program inside.
    const lost = (parked?.saved?.connections ?? []).filter((end) => !continued.has(end.id))
    this.#options.lost.add(
      id,
      'wake',
      lost.flatMap((end) => parked?.to.get(end.id) ?? []),
    )
    this.forget(id)
    await this.#options.ends.resume(id, burrow, ends)
  }

  /** The sandbox was deleted. */
  delete(id: SandboxId): void {
    this.forget(id)
    this.#lastParked.delete(id)
    this.#unkept.delete(id)
  }

  forget(id: SandboxId): void {
    clearTimeout(this.#parked.get(id)?.expiry)
    this.#parked.delete(id)
  }

  #expireAfter(id: SandboxId, keptMs: number): Pick<Parked, 'expiry' | 'expiresAtMs'> {
    const expire = () => {
      this.#options.lost.add(id, 'expired', [...(this.#parked.get(id)?.to.values() ?? [])])
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
