import type { FailureLog } from '../host/failure-log.ts'
import type { SnapshotStore } from './snapshot-store.ts'

/** Unused layers take disk space a little longer; nothing else depends on when they are removed. */
const PAUSE_MS = 1_000
/** What blocks a collection lasts moments (a burrow being made) or until an operator acts (a damaged manifest). */
const PAUSE_MAX_MS = 5 * 60_000

/** Removes layers that nothing refers to. A collection reads every manifest, so many deletions in a row share one. */
export class LayerCollector implements AsyncDisposable {
  readonly #store: SnapshotStore
  readonly #failures: FailureLog
  /** Pieces of work with layers that nothing refers to yet. No collection begins meanwhile. */
  #holds = 0
  #isDue = false
  #pauseMs = PAUSE_MS
  #pausedUntil = 0
  #timer: NodeJS.Timeout | undefined
  #collecting: Promise<void> = Promise.resolve()

  constructor(store: SnapshotStore, failures: FailureLog) {
    this.#store = store
    this.#failures = failures
  }

  /** Whether `withoutCollecting` is running something. */
  get isHeld(): boolean {
    return this.#holds > 0
  }

  /** Runs work that makes layers, or relies on layers, that nothing refers to yet. No collection begins meanwhile. */
  async withoutCollecting<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#holds += 1
    try {
      return await work()
    } finally {
      this.#holds -= 1
      this.#collectLater()
    }
  }

  /** Settles when the collection that is running, if any, has ended. */
  async untilCollected(): Promise<void> {
    await this.#collecting
  }

  /** Something may have become unused. Never throws: the next collection removes what this one could not. */
  async collect(): Promise<void> {
    this.#isDue = true
    await this.#collect()
  }

  /** The same, but not before `ms` have passed. */
  collectAfter(ms: number): void {
    this.#isDue = true
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + ms)
    this.#collectLater()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer)
    await this.#collecting
  }

  async #collect(): Promise<void> {
    if (this.#holds > 0 || !this.#isDue) return
    if (performance.now() < this.#pausedUntil) {
      this.#collectLater()
      return
    }
    this.#isDue = false
    this.#collecting = this.#store.collect().then(
      (isComplete) => this.#pause(isComplete),
      (error: unknown) => {
        this.#failures.report('collection', error, {}, 'unused layers were not removed')
        this.#pause(false)
      },
    )
    await this.#collecting
  }

  #pause(isComplete: boolean): void {
    this.#pauseMs = isComplete ? PAUSE_MS : Math.min(this.#pauseMs * 2, PAUSE_MAX_MS)
    this.#pausedUntil = performance.now() + this.#pauseMs
    if (isComplete) return
    this.#isDue = true
    this.#collectLater()
  }

  #collectLater(): void {
    if (!this.#isDue) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#collect()
    }, this.#pauseMs).unref()
  }
}
