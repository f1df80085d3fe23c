/** Of each sandbox at the start of the day: what it has in the depot, beyond its template. */
const OWN_AT_START_BYTES = 40e6
/** What the depot stores of a byte of memory. */
const COMPRESSED = 0.4

/** What the sandboxes have in the depot, and what snapshots that are out of use leave there until the next collection. */
export class DepotBytes {
  #own
  #memoryBytes
  #totals = { uploaded: 0, unused: 0 }

  constructor({ sandboxes, memoryBytes, valueAround }) {
    this.#memoryBytes = memoryBytes
    this.#own = Float64Array.from({ length: sandboxes }, () =>
      Math.min(memoryBytes, valueAround(OWN_AT_START_BYTES)),
    )
  }

  /** What a deleted sandbox had there stays until the collection. */
  remove(sandbox) {
    this.#totals.unused += this.#own[sandbox]
    this.#own[sandbox] = 0
  }

  /** Changes hit all pages of a sandbox alike, so the more it has of its own the more of that they replace. */
  save(sandbox, changedBytes) {
    const changed = Math.min(changedBytes, this.#memoryBytes)
    const added = changed * (1 - this.#own[sandbox] / this.#memoryBytes)
    this.#own[sandbox] += added
    this.#totals.uploaded += changed
    this.#totals.unused += changed - added
  }

  read() {
    const inUse = this.#own.reduce((sum, bytes) => sum + bytes, 0)
    const { uploaded, unused } = this.#totals
    return {
      inUseBytes: inUse * COMPRESSED,
      uploadedBytes: uploaded * COMPRESSED,
      unusedBytes: unused * COMPRESSED,
    }
  }
}
