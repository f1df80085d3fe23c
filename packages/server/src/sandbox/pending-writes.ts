import type { Burrow } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'

export interface PendingWrite {
  /** Records the outcome of something that has happened. Called again until it does not throw. */
  readonly write: () => void | Promise<void>
  /** The burrow that the sandbox enters with this write. Nothing else refers to it. */
  readonly burrow?: Burrow | undefined
}

const RETRY_MS = 5_000

/**
 * Outcomes that a full or failing disk did not let the server record yet, in the order in which they happened. They are
 * written before anything else happens to the sandbox. If the server ends first, recovery finds out by itself.
 */
export class PendingWrites {
  readonly #writes: PendingWrite[] = []
  readonly #clock: Pick<ServerClock, 'monotonicMs'>
  readonly #onAdd: () => void
  #retryAt = 0

  constructor(clock: Pick<ServerClock, 'monotonicMs'>, onAdd: () => void) {
    this.#clock = clock
    this.#onAdd = onAdd
  }

  get isEmpty(): boolean {
    return this.#writes.length === 0
  }

  /** The background retry is due. */
  get isDue(): boolean {
    return !this.isEmpty && this.#clock.monotonicMs() >= this.#retryAt
  }

  get burrows(): Burrow[] {
    return this.#writes.flatMap(({ burrow }) => burrow ?? [])
  }

  add(write: PendingWrite): void {
    this.#writes.push(write)
    this.#retryAt = this.#clock.monotonicMs() + RETRY_MS
    this.#onAdd()
  }

  /** Throws what the first failing write throws; it and those after it stay pending. */
  async flush(): Promise<void> {
    for (let next = this.#writes.shift(); next !== undefined; next = this.#writes.shift()) {
      try {
        await next.write()
      } catch (error) {
        this.#writes.unshift(next)
        this.#retryAt = this.#clock.monotonicMs() + RETRY_MS
        throw error
      }
    }
  }
}
