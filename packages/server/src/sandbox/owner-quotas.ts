import type { SandboxState } from '@dormouse/contracts'
import type { SandboxLimits, SandboxRow } from '../store/sandbox-rows.ts'
import type { Sandboxes } from './sandboxes.ts'

/** What the quota of a key is compared with. */
export interface OwnerUsage {
  readonly sandboxes: number
  readonly running: number
  readonly memoryBytes: number
  readonly diskBytes: number
}

export interface OwnerQuotasOptions {
  readonly sandboxes: Sandboxes
  /** Throws `limit_reached` when the owner may not have this much more. */
  readonly checkQuota: (owner: string, used: () => OwnerUsage, wanted: Partial<OwnerUsage>) => void
  /** Throws `limit_reached` when a sandbox of this owner may not have such limits. */
  readonly checkCeilings: (owner: string, limits: Partial<SandboxLimits>) => void
  /** Bytes on disk of the snapshots and volumes of an owner. */
  readonly storedBytes: (owner: string) => number
  /** Bytes of the journal of one sandbox. */
  readonly journalBytes: (id: SandboxRow['id']) => number
}

/** States in which a sandbox has memory, or may have it again in a moment. */
const IN_MEMORY: ReadonlySet<SandboxState> = new Set(['creating', 'resuming', 'running', 'suspending'])

/** The sandboxes of other hosts of the cluster. */
export type RowsElsewhere = (owner: string) => Iterable<SandboxRow>

/** Compares what the sandboxes of one key use together with the quota of the key. All methods throw `limit_reached`. */
export class OwnerQuotas {
  readonly #options: OwnerQuotasOptions
  /** Undefined outside a cluster. */
  elsewhere: RowsElsewhere | undefined
  readonly #held = new Set<{ readonly owner: string; readonly count: number; readonly memoryBytes: number }>()

  constructor(options: OwnerQuotasOptions) {
    this.#options = options
  }

  checkCeilings(owner: string, limits: Partial<SandboxLimits>): void {
    this.#options.checkCeilings(owner, limits)
  }

  /** `count` more sandboxes that run, each with this much memory. */
  requireNew(owner: string, memoryBytes: number, count = 1): void {
    // Every sandbox takes some disk: an owner that has none left gets no new one.
    this.#require(owner, {
      sandboxes: count,
      running: count,
      memoryBytes: count * memoryBytes,
      diskBytes: count,
    })
  }

  /** The same for a sandbox that is counted already: another host may have made one at the same moment. */
  requireStill({ owner, limits }: SandboxRow): void {
    const wanted = { sandboxes: 1, running: 1, memoryBytes: limits.memoryBytes }
    const before = () => {
      const { sandboxes, running, memoryBytes, diskBytes } = this.#usedBy(owner)
      return {
        ...{ sandboxes: sandboxes - 1, running: running - 1, diskBytes },
        memoryBytes: memoryBytes - limits.memoryBytes,
      }
    }
    this.#options.checkQuota(owner, before, wanted)
  }

  /** Counts the children of a fork until they are known: of two forks at once, the second must see the first. */
  holdNew({ owner, limits }: SandboxRow, count: number): Disposable {
    this.requireNew(owner, limits.memoryBytes, count)
    const held = { owner, count, memoryBytes: count * limits.memoryBytes }
    this.#held.add(held)
    return { [Symbol.dispose]: () => void this.#held.delete(held) }
  }

  /** One more sandbox that runs. */
  requireRunning({ owner, limits }: SandboxRow): void {
    this.#require(owner, { running: 1, memoryBytes: limits.memoryBytes })
  }

  requireMemory({ owner }: SandboxRow, memoryBytes: number): void {
    this.#require(owner, { memoryBytes })
  }

  /** Anything more on disk. */
  requireDisk(owner: string): void {
    this.#require(owner, { diskBytes: 1 })
  }

  #require(owner: string, wanted: Partial<OwnerUsage>): void {
    this.#options.checkQuota(owner, () => this.#usedBy(owner), wanted)
  }

  #usedBy(owner: string): OwnerUsage {
    const { sandboxes, storedBytes, journalBytes } = this.#options
    const used = { sandboxes: 0, running: 0, memoryBytes: 0, diskBytes: storedBytes(owner) }
    for (const { id, row, effectiveRow } of sandboxes.all()) {
      // What is left of a deleted one is removed in a moment.
      if (row.owner !== owner || row.state === 'deleting') continue
      used.sandboxes += 1
      used.diskBytes += journalBytes(id)
      if (!IN_MEMORY.has(row.state)) continue
      used.running += 1
      // A change under way may succeed or fail: the larger of both limits counts.
      used.memoryBytes += Math.max(row.limits.memoryBytes, effectiveRow.limits.memoryBytes)
    }
    for (const { state, limits, diskBytes } of this.elsewhere?.(owner) ?? []) {
      used.sandboxes += 1
      used.diskBytes += diskBytes ?? 0
      if (!IN_MEMORY.has(state)) continue
      used.running += 1
      used.memoryBytes += limits.memoryBytes
    }
    for (const held of this.#held) {
      if (held.owner !== owner) continue
      used.sandboxes += held.count
      used.running += held.count
      used.memoryBytes += held.memoryBytes
    }
    return used
  }
}
