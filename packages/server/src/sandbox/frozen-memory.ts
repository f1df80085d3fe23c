import { Mutex } from '@dormouse/async'
import type { Burrow } from '@dormouse/engine'
import type { Sandbox } from './sandbox.ts'

/** A burrow's memory does not change while it is frozen, so one measurement per freeze is enough. */
interface Measurement {
  readonly frozenSince: number
  /** Undefined until it is known, and when it could not be measured. */
  bytes: number | undefined
}

/**
 * Keeps the memory of frozen sandboxes within a budget. Counts memory that only they have: the rest is shared with
 * snapshots and siblings, and the kernel can take it back at any time.
 */
export class FrozenMemory {
  readonly #budgetBytes: number
  readonly #measurements = new WeakMap<Burrow, Measurement>()
  readonly #mutex = new Mutex()

  constructor(budgetBytes: number) {
    this.#budgetBytes = budgetBytes
  }

  /**
   * The frozen sandboxes to store now, least recently used first, so that the others stay within the budget and
   * `missingBytes` more memory becomes free. A sandbox counts from the round after its measurement.
   */
  excess(sandboxes: Iterable<Sandbox>, missingBytes: number): readonly Sandbox[] {
    let heldBytes = 0
    for (const sandbox of sandboxes) heldBytes += this.#bytesOf(sandbox) ?? 0
    let excessBytes = Math.max(heldBytes - this.#budgetBytes, missingBytes)
    // Almost always. A thousand of them are not sorted twice a second.
    if (excessBytes <= 0) return []
    const frozen = [...sandboxes]
      .flatMap((sandbox) => {
        const bytes = this.#bytesOf(sandbox)
        return bytes === undefined ? [] : [{ sandbox, bytes }]
      })
      .sort((one, other) => one.sandbox.row.lastActiveAt - other.sandbox.row.lastActiveAt)
    const excess: Sandbox[] = []
    for (const { sandbox, bytes } of frozen) {
      if (excessBytes <= 0) break
      excess.push(sandbox)
      excessBytes -= bytes
    }
    return excess
  }

  /** Undefined for a sandbox that is not frozen, or not measured yet. */
  #bytesOf({ row, burrow }: Sandbox): number | undefined {
    if (row.tier !== 'frozen' || burrow === undefined) return undefined
    const known = this.#measurements.get(burrow)
    if (known?.frozenSince === row.stateSince) return known.bytes
    const measurement: Measurement = { frozenSince: row.stateSince, bytes: undefined }
    this.#measurements.set(burrow, measurement)
    // One at a time: measuring occupies a thread of this process.
    void this.#mutex.run(async () => {
      // A burrow that has ended meanwhile has no memory.
      measurement.bytes = (await burrow.memory().catch(() => undefined))?.privateBytes
    })
    return undefined
  }
}
