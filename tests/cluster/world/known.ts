/** A call without an answer may still happen for so long. */
const LATE_MS = 60_000

/** A snapshot that was kept. */
export interface Kept {
  readonly id: string
  /** The counter in it is at least this. */
  readonly lowest: number
  /** The counter in it is at most this, if no increment without an answer happened after a rollback to it. */
  highest: number
  /** A host has shown it that does not have the sandbox: it is in the depot, and must not get lost. */
  isShared: boolean
}

/** What must be true of a sandbox, whatever happens to its hosts. */
export class Known {
  readonly id: string
  /** How many increments were asked for in the history of this sandbox. Its counter is never higher. */
  asked: number
  /** How many of them have no answer. They may still happen. */
  unanswered: number
  readonly kept: Kept[] = []
  /** Its deletion was acknowledged. */
  isDeleted = false
  /** A deletion was asked for. Without an answer it may have happened. */
  mayBeDeleted = false
  #durable: number
  /** Until then, a rollback without an answer may happen. */
  #uncertainUntil = 0
  #name: string | undefined
  /** Until then, a change of the name without an answer may happen. */
  #unnamedUntil = 0

  /** A child has what its parent had before the fork. */
  constructor(id: string, parent?: Known) {
    this.id = id
    this.#durable = parent?.durable ?? -1
    this.asked = parent?.asked ?? 0
    this.unanswered = parent?.unanswered ?? 0
    this.#uncertainUntil = parent?.isUncertain === true ? performance.now() + LATE_MS : 0
  }

  /** Every later counter is higher. */
  get durable(): number {
    return this.#durable
  }

  get isUncertain(): boolean {
    return performance.now() < this.#uncertainUntil
  }

  /** The last name that was acknowledged. Undefined: it has none, or which one is not known. */
  get name(): string | undefined {
    return performance.now() < this.#unnamedUntil ? undefined : this.#name
  }

  /** A name is asked for. Call the returned function when it was acknowledged. */
  beginRename(name: string): () => void {
    const before = this.#unnamedUntil
    // Without an answer it has this name or another one until it gets the next.
    this.#name = undefined
    this.#unnamedUntil = performance.now() + LATE_MS
    return () => {
      if (performance.now() >= before) this.#name = name
      this.#unnamedUntil = before
    }
  }

  /** A sleep or move with this counter was acknowledged. */
  noteDurable(value: number): void {
    if (!this.isUncertain) this.#durable = Math.max(this.#durable, value)
  }

  /** A rollback is asked for. Call the returned function when it was acknowledged. */
  beginRollback({ lowest }: Kept): () => void {
    const before = this.#uncertainUntil
    this.#durable = Math.min(this.#durable, lowest)
    this.#uncertainUntil = performance.now() + LATE_MS
    return () => {
      this.#uncertainUntil = before
    }
  }
}
