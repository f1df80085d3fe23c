import { Mutex } from '@dormouse/async'
import { DormouseError, hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { FailureLog } from '../host/failure-log.ts'

/**
 * A sandbox that wakes again at once runs on the version it had, so a new version would be wasted. And by then the
 * server has deleted the snapshots of former sleeps that it no longer needs.
 */
const DELAY_MS = 1_000

export interface UpkeepParts {
  /** Whether a new version of this snapshot could be useful now. */
  readonly isWanted: (id: SnapshotId) => Promise<boolean>
  /** Returns whether it made a new version. */
  readonly improve: (id: SnapshotId, signal: AbortSignal) => Promise<boolean>
  readonly failures: FailureLog
}

/** Runs upkeep of snapshots in the background, one at a time. */
export class UpkeepQueue implements AsyncDisposable {
  readonly #parts: UpkeepParts
  readonly #closing = new AbortController()
  /** Scheduled snapshots, until their turn comes. Clearing the timer cancels one. */
  readonly #scheduled = new Map<SnapshotId, NodeJS.Timeout>()
  readonly #mutex = new Mutex()

  constructor(parts: UpkeepParts) {
    this.#parts = parts
  }

  /** Improves the snapshot soon, if that is still wanted then. After a failure the old version stays in use. */
  schedule(id: SnapshotId, delayMs = DELAY_MS): void {
    if (this.#scheduled.has(id) || this.#closing.signal.aborted) return
    const begin = () => {
      this.#scheduled.delete(id)
      this.run([id]).catch((error: unknown) => {
        if (this.#closing.signal.aborted) return
        this.#parts.failures.report('upkeep', error, { snapshotId: id }, 'a snapshot was not improved')
      })
    }
    // Upkeep must not keep a process alive that has nothing else to do.
    this.#scheduled.set(id, setTimeout(begin, delayMs).unref())
  }

  /**
   * Improves snapshots now, one after the other, and returns those that got a new version. Throws the first failure at
   * the end.
   */
  run(ids: readonly SnapshotId[]): Promise<SnapshotId[]> {
    return this.#mutex.run(async () => {
      const improved: SnapshotId[] = []
      const failures: unknown[] = []
      for (const id of ids) {
        const isNew = await this.#improve(id).catch((error: unknown) => void failures.push(error))
        if (isNew) improved.push(id)
      }
      if (failures.length > 0) throw failures[0]
      return improved
    })
  }

  /** Aborts the upkeep that is under way, which leaves nothing behind. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new DormouseError('cancelled', 'The engine is closing.'))
    for (const timer of this.#scheduled.values()) clearTimeout(timer)
    await this.#mutex.run(() => {})
  }

  async #improve(id: SnapshotId): Promise<boolean> {
    const { signal } = this.#closing
    signal.throwIfAborted()
    try {
      return (await this.#parts.isWanted(id)) && (await this.#parts.improve(id, signal))
    } catch (error) {
      // The snapshot was deleted meanwhile.
      if (hasErrorCode(error, 'not_found')) return false
      throw error
    }
  }
}
