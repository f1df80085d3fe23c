import type { Burrow } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'

export interface Debt {
  /** Writes down what has come of something. Called until it succeeds. */
  readonly pay: () => void | Promise<void>
  /** What the sandbox will live in once that is done; nobody else knows of it. */
  readonly burrow?: Burrow | undefined
}

const RETRY_MS = 5_000

/**
 * What has happened to a sandbox and is not in its row yet, because a full disk, or a disk that fails, has not let anybody write it. It comes
 * before anything else that is done to the sandbox; should the server end before, recovery finds out by itself.
 */
export class Debts {
  readonly #all: Debt[] = []
  readonly #clock: Pick<ServerClock, 'monotonicMs'>
  #retryAt = 0

  constructor(clock: Pick<ServerClock, 'monotonicMs'>) {
    this.#clock = clock
  }

  get isEmpty(): boolean {
    return this.#all.length === 0
  }

  /** Time for another attempt by itself. */
  get isDue(): boolean {
    return !this.isEmpty && this.#clock.monotonicMs() >= this.#retryAt
  }

  get burrows(): Burrow[] {
    return this.#all.flatMap(({ burrow }) => burrow ?? [])
  }

  add(debt: Debt): void {
    this.#all.push(debt)
    this.#retryAt = this.#clock.monotonicMs() + RETRY_MS
  }

  /** In the order in which it happened. Throws what stands in the way; the rest is owed still. */
  async pay(): Promise<void> {
    for (let debt = this.#all.shift(); debt !== undefined; debt = this.#all.shift()) {
      try {
        await debt.pay()
      } catch (error) {
        this.#all.unshift(debt)
        this.#retryAt = this.#clock.monotonicMs() + RETRY_MS
        throw error
      }
    }
  }
}
