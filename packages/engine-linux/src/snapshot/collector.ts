import type { SnapshotStore } from './snapshot-store.ts'

/** Layers that nobody needs any more take disk space a little longer; nothing else depends on them. */
const COLLECTIONS_APART_MS = 1_000
/** A burrow that is being made is in the way for moments, a damaged manifest until somebody looks at it. */
const COLLECTIONS_APART_MAX_MS = 5 * 60_000

/** Removes layers that nothing refers to, now and then. It reads every manifest there is: many deletions in a row share one. */
export class Collector implements AsyncDisposable {
  readonly #store: SnapshotStore
  /** A snapshot being taken, or kept up, has layers that nothing refers to yet: no collection begins meanwhile. */
  #taking = 0
  #isDue = false
  #pauseMs = COLLECTIONS_APART_MS
  #restsUntil = 0
  #timer: NodeJS.Timeout | undefined
  #collecting: Promise<void> = Promise.resolve()

  constructor(store: SnapshotStore) {
    this.#store = store
  }

  get isTaking(): boolean {
    return this.#taking > 0
  }

  async whileTaking<Result>(take: () => Promise<Result>): Promise<Result> {
    this.#taking += 1
    try {
      return await take()
    } finally {
      this.#taking -= 1
      this.#collectLater()
    }
  }

  /** Settles when what is being collected now, chosen before there was anything of a new version, is gone. */
  async untilCollected(): Promise<void> {
    await this.#collecting
  }

  /** There may be something to collect. Never throws: what stays because of a failure is collected with the next one. */
  async collect(): Promise<void> {
    this.#isDue = true
    await this.#collect()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#timer)
    await this.#collecting
  }

  async #collect(): Promise<void> {
    if (this.#taking > 0 || !this.#isDue) return
    if (performance.now() < this.#restsUntil) {
      this.#collectLater()
      return
    }
    this.#isDue = false
    this.#collecting = this.#store.collect().then(
      (isComplete) => this.#rest(isComplete),
      () => this.#rest(false),
    )
    await this.#collecting
  }

  #rest(isComplete: boolean): void {
    this.#pauseMs = isComplete ? COLLECTIONS_APART_MS : Math.min(this.#pauseMs * 2, COLLECTIONS_APART_MAX_MS)
    this.#restsUntil = performance.now() + this.#pauseMs
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
