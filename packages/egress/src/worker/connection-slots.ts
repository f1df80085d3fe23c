export interface ConnectionSlotsOptions {
  /** For all sandboxes. */
  readonly max: number
  readonly maxPerSandbox: number
}

export interface Tenant {
  readonly sandboxId: string
  /** The API key. Its sandboxes share its slots. */
  readonly owner: string
}

/** The slot of one connection. */
interface Slot {
  readonly tenant: Tenant
  /** Ends the connection. The reason is for people. */
  readonly evict: (reason: string) => void
}

/** The slots of each sandbox; the newest last. */
type SlotsBySandbox = Map<string, Set<Slot>>

/**
 * Decides which sandbox may open another connection. While slots are free: every sandbox, up to its own limit. When all
 * are taken, the API key with the most slots gives one up to a key with fewer, and within a key the sandbox with the
 * most to one with fewer. With n greedy keys, each gets at least an n-th.
 */
export class ConnectionSlots {
  readonly #options: ConnectionSlotsOptions
  readonly #owners = new Map<string, SlotsBySandbox>()
  #taken = 0

  constructor(options: ConnectionSlotsOptions) {
    this.#options = options
  }

  /**
   * Takes a slot and returns a function that releases it, or the reason why there is none. `evict` may be called later,
   * once.
   */
  take(tenant: Tenant, evict: Slot['evict']): (() => void) | string {
    const { max, maxPerSandbox } = this.#options
    const own: SlotsBySandbox = this.#owners.get(tenant.owner) ?? new Map()
    if ((own.get(tenant.sandboxId)?.size ?? 0) >= maxPerSandbox) return 'too many connections of this sandbox'
    if (this.#taken >= max && !this.#makeRoom(tenant, own)) return 'too many connections of all sandboxes'
    const slot: Slot = { tenant, evict }
    // Read again: making room may have removed the owner's last slot.
    const slots: SlotsBySandbox = this.#owners.get(tenant.owner) ?? new Map()
    this.#owners.set(tenant.owner, slots)
    slots.set(tenant.sandboxId, (slots.get(tenant.sandboxId) ?? new Set()).add(slot))
    this.#taken += 1
    return () => this.#release(slot)
  }

  #makeRoom({ owner, sandboxId }: Tenant, own: SlotsBySandbox): boolean {
    const [ofOwner, ofSandbox] = [countOf(own), own.get(sandboxId)?.size ?? 0]
    const [[most, slots] = [owner, own]] = [...this.#owners].sort(([, a], [, b]) => countOf(b) - countOf(a))
    const [largest = new Set<Slot>()] = [...slots.values()].sort((a, b) => b.size - a.size)
    // Moving a slot must not merely swap who has the most.
    const isFairer = most === owner ? ofSandbox + 1 < largest.size : ofOwner + 1 < countOf(slots)
    const newest = [...largest].at(-1)
    if (!isFairer || newest === undefined) return false
    this.#release(newest)
    newest.evict(
      most === owner
        ? 'closed for another sandbox of its API key: too many connections'
        : 'closed for another API key: too many connections',
    )
    return true
  }

  /** Releasing twice does nothing. */
  #release(slot: Slot): void {
    const { owner, sandboxId } = slot.tenant
    const slots = this.#owners.get(owner)
    const ofSandbox = slots?.get(sandboxId)
    if (ofSandbox?.delete(slot) !== true) return
    this.#taken -= 1
    if (ofSandbox.size === 0) slots?.delete(sandboxId)
    if (slots?.size === 0) this.#owners.delete(owner)
  }
}

function countOf(slots: SlotsBySandbox): number {
  let count = 0
  for (const { size } of slots.values()) count += size
  return count
}
