export interface ConnectionSlotsOptions {
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
interface Slot {
  readonly tenant: Tenant
  /** Ends the connection; the reason is for people. */
  readonly evict: (reason: string) => void
}

/** By sandbox; the newest last. */
type SlotsBySandbox = Map<string, Set<Slot>>

/**
 * Who may have another connection. While there are enough, everybody up to the bound of a sandbox. When all are taken, the API key that has
 * most gives one up to a key that has fewer, and within a key the sandbox that has most to one that has fewer: with n keys that want all
 * they can get, each has at least an n-th.
 */
export class ConnectionSlots {
  readonly #options: ConnectionSlotsOptions
  readonly #owners = new Map<string, SlotsBySandbox>()
  #taken = 0

  constructor(options: ConnectionSlotsOptions) {
    this.#options = options
  }

  /** Takes a slot, and returns how to give it back. When there is none: a few words about why. `evict` may be called later, once. */
  take(tenant: Tenant, evict: Slot['evict']): (() => void) | string {
    const { max, maxPerSandbox } = this.#options
    const own: SlotsBySandbox = this.#owners.get(tenant.owner) ?? new Map()
    if ((own.get(tenant.sandboxId)?.size ?? 0) >= maxPerSandbox) return 'too many connections of this sandbox'
    if (this.#taken >= max && !this.#makeRoom(tenant, own)) return 'too many connections of all sandboxes'
    const slot: Slot = { tenant, evict }
    // Looked for again: making room may have taken the last one of its owner.
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
    // One more here and one less there must not only change who is first.
    const isFairer = most === owner ? ofSandbox + 1 < largest.size : ofOwner + 1 < countOf(slots)
    const newest = [...largest].at(-1)
    if (!isFairer || newest === undefined) return false
    this.#release(newest)
    newest.evict(
      most === owner
        ? 'gave way to another sandbox of its API key: too many connections'
        : 'gave way to another API key: too many connections',
    )
    return true
  }

  /** Does nothing the second time. */
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
