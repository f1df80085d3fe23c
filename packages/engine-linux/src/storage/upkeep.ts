import { DormouseError, type SnapshotId } from '@dormouse/contracts'

/**
 * A sandbox that wakes again at once goes on from the version it had, so a new one would be for nothing; and whoever put it to
 * sleep has deleted by then what it no longer needs of former sleeps.
 */
const DELAY_MS = 1_000

export interface UpkeepParts {
  /** Whether a new version of this snapshot could be of use now. */
  readonly isWanted: (id: SnapshotId) => Promise<boolean>
  /** Answers whether there was something to do. */
  readonly keepUp: (id: SnapshotId, signal: AbortSignal) => Promise<boolean>
}

/** Keeps snapshots up in the background, one at a time. */
export class Upkeep implements AsyncDisposable {
  readonly #parts: UpkeepParts
  readonly #closing = new AbortController()
  /** Until they are done; what has not begun can be called off by its timer. */
  readonly #waiting = new Map<SnapshotId, NodeJS.Timeout>()
  /** Settles, always well, when all that was asked for so far is done. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(parts: UpkeepParts) {
    this.#parts = parts
  }

  /** Soon, if it is still wanted then. What fails is tried again after the next sleep: the old version is as good as before. */
  schedule(id: SnapshotId, delayMs = DELAY_MS): void {
    if (this.#waiting.has(id) || this.#closing.signal.aborted) return
    const begin = () =>
      void this.run([id])
        .catch(() => {})
        .finally(() => this.#waiting.delete(id))
    // Upkeep must not keep a process alive that has nothing else to do.
    this.#waiting.set(id, setTimeout(begin, delayMs).unref())
  }

  /** Now, one after the other; answers which got a new version. One that fails does not keep the others from it. */
  run(ids: readonly SnapshotId[]): Promise<SnapshotId[]> {
    const turn = this.#last.then(async () => {
      const kept: SnapshotId[] = []
      const failures: unknown[] = []
      for (const id of ids) {
        const isNew = await this.#keepUp(id).catch((error: unknown) => void failures.push(error))
        if (isNew) kept.push(id)
      }
      if (failures.length > 0) throw failures[0]
      return kept
    })
    this.#last = turn.catch(() => {})
    return turn
  }

  /** What is going on is given up; nothing of it is left. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new DormouseError('cancelled', 'The engine is closing.'))
    for (const timer of this.#waiting.values()) clearTimeout(timer)
    await this.#last
  }

  async #keepUp(id: SnapshotId): Promise<boolean> {
    const { signal } = this.#closing
    signal.throwIfAborted()
    try {
      return (await this.#parts.isWanted(id)) && (await this.#parts.keepUp(id, signal))
    } catch (error) {
      // It was deleted meanwhile.
      if (error instanceof DormouseError && error.code === 'not_found') return false
      throw error
    }
  }
}
