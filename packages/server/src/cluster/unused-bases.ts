import type { FetchedBases } from '@dormouse/engine'

/** What was used within this time is kept: the next sandbox may need it. */
const IN_USE_MS = 10 * 60_000

export interface UnusedBasesOptions {
  readonly fetched: FetchedBases
  /** How much of them this host keeps. */
  readonly maxBytes: number
  /** Whether this host can fetch it again. */
  readonly isShared: (base: string) => boolean
  /** Whether a sandbox or a kept snapshot of the cluster needs it. */
  readonly isNeeded: (base: string) => boolean
  /** A base that was used later ago may go. Ten minutes unless a test says otherwise. */
  readonly inUseMs?: number | undefined
}

/**
 * Bases that this host has fetched and needs no more. Those that nothing in the cluster needs go, and of the others
 * the ones that were used least recently, when all of them take more than `maxBytes`. One that the depot does not have
 * may be the last copy.
 */
export class UnusedBases {
  readonly #options: UnusedBasesOptions
  /** By the monotonic clock. What an earlier server has used counts as used when this one started. */
  readonly #usedMs = new Map<string, number>()
  readonly #startedMs = performance.now()
  /** How many snapshots are being imported that need a base. */
  readonly #users = new Map<string, number>()
  readonly #removed = new Set<string>()

  constructor(options: UnusedBasesOptions) {
    this.#options = options
  }

  /** Whether it was removed here. It is not fetched again before a sandbox needs it. */
  wasRemoved(base: string): boolean {
    return this.#removed.has(base)
  }

  /** While `work` runs, these bases stay. */
  async using<Value>(bases: readonly string[], work: () => Promise<Value>): Promise<Value> {
    const count = (by: number) => {
      for (const base of bases) this.#users.set(base, (this.#users.get(base) ?? 0) + by)
      for (const base of bases) this.#usedMs.set(base, performance.now())
    }
    for (const base of bases) this.#removed.delete(base)
    count(1)
    try {
      return await work()
    } finally {
      count(-1)
    }
  }

  /** Calls `remove` for each one that is to go, which calls `take` when nothing else works with the base. */
  async trim(remove: (base: string, take: () => Promise<boolean>) => Promise<void>): Promise<void> {
    const { fetched, maxBytes, isShared, isNeeded } = this.#options
    await fetched.removeUnfinished()
    const unused = [...(await fetched.unused())]
    unused.sort((one, other) => this.#usedAt(one.key) - this.#usedAt(other.key))
    let bytes = unused.reduce((sum, base) => sum + base.bytes, 0)
    for (const base of unused) {
      const isWanted = isShared(base.key) ? bytes <= maxBytes : isNeeded(base.key)
      if (isWanted || !this.#isFree(base.key)) continue
      bytes -= base.bytes
      await remove(base.key, async () => {
        // It may have been used while this waited.
        if (!this.#isFree(base.key) || !(await fetched.remove(base.key))) return false
        this.#usedMs.delete(base.key)
        this.#removed.add(base.key)
        return true
      })
    }
  }

  #usedAt(base: string): number {
    return this.#usedMs.get(base) ?? this.#startedMs
  }

  #isFree(base: string): boolean {
    const isUsed = (this.#users.get(base) ?? 0) > 0
    return !isUsed && performance.now() - this.#usedAt(base) >= (this.#options.inUseMs ?? IN_USE_MS)
  }
}
