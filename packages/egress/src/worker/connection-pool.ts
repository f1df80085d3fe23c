export interface ConnectionPoolOptions {
  /** All sandboxes together. */
  readonly max: number
  readonly maxPerSandbox: number
}

export interface Tenant {
  readonly sandboxId: string
  /** The API key: all its sandboxes share what it may have. */
  readonly owner: string
}

/** Of one connection. */
interface Place {
  readonly tenant: Tenant
  /** Ends the connection; the reason is for people. */
  readonly giveWay: (reason: string) => void
}

/** By sandbox; the newest last. */
type Places = Map<string, Set<Place>>

/**
 * Who may have another connection. While there are enough, everybody up to the bound of a sandbox. When all are taken, the API key that has
 * most gives one up to a key that has fewer, and within a key the sandbox that has most to one that has fewer: with n keys that want all
 * they can get, each has at least an n-th.
 */
export class ConnectionPool {
  readonly #options: ConnectionPoolOptions
  readonly #owners = new Map<string, Places>()
  #taken = 0

  constructor(options: ConnectionPoolOptions) {
    this.#options = options
  }

  /** Takes a place, and returns how to give it back. When there is none: a few words about why. `giveWay` may be called later, once. */
  enter(tenant: Tenant, giveWay: Place['giveWay']): (() => void) | string {
    const { max, maxPerSandbox } = this.#options
    const own: Places = this.#owners.get(tenant.owner) ?? new Map()
    if ((own.get(tenant.sandboxId)?.size ?? 0) >= maxPerSandbox) return 'too many connections of this sandbox'
    if (this.#taken >= max && !this.#makeRoom(tenant, own)) return 'too many connections of all sandboxes'
    const place: Place = { tenant, giveWay }
    // Looked for again: making room may have taken the last one of its owner.
    const places: Places = this.#owners.get(tenant.owner) ?? new Map()
    this.#owners.set(tenant.owner, places)
    places.set(tenant.sandboxId, (places.get(tenant.sandboxId) ?? new Set()).add(place))
    this.#taken += 1
    return () => this.#leave(place)
  }

  #makeRoom({ owner, sandboxId }: Tenant, own: Places): boolean {
    const [ofOwner, ofSandbox] = [countOf(own), own.get(sandboxId)?.size ?? 0]
    const [[most, places] = [owner, own]] = [...this.#owners].sort(([, a], [, b]) => countOf(b) - countOf(a))
    const [largest = new Set<Place>()] = [...places.values()].sort((a, b) => b.size - a.size)
    // One more here and one less there must not only change who is first.
    const isFairer = most === owner ? ofSandbox + 1 < largest.size : ofOwner + 1 < countOf(places)
    const newest = [...largest].at(-1)
    if (!isFairer || newest === undefined) return false
    this.#leave(newest)
    newest.giveWay(
      most === owner
        ? 'gave way to another sandbox of its API key: too many connections'
        : 'gave way to another API key: too many connections',
    )
    return true
  }

  /** Does nothing the second time. */
  #leave(place: Place): void {
    const { owner, sandboxId } = place.tenant
    const places = this.#owners.get(owner)
    const ofSandbox = places?.get(sandboxId)
    if (ofSandbox?.delete(place) !== true) return
    this.#taken -= 1
    if (ofSandbox.size === 0) places?.delete(sandboxId)
    if (places?.size === 0) this.#owners.delete(owner)
  }
}

function countOf(places: Places): number {
  let count = 0
  for (const { size } of places.values()) count += size
  return count
}
