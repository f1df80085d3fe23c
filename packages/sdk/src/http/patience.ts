import { cancelled, type DormouseError } from '../error.ts'

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 2_000

/** Waits longer and longer between tries, until there was no progress for too long. */
export class Patience {
  readonly #forMs: number
  #tries = 0
  #since: number | undefined

  constructor(forMs: number) {
    this.#forMs = forMs
  }

  /** Something went well. */
  renew(): void {
    this.#tries = 0
    this.#since = undefined
  }

  /** Throws `error` when it is not worth waiting. */
  async wait(error: DormouseError, signal?: AbortSignal): Promise<void> {
    const now = Date.now()
    this.#since ??= now
    const step = Math.min(FIRST_WAIT_MS * 2 ** this.#tries, LONGEST_WAIT_MS)
    this.#tries += 1
    // Spread, so that many clients of one server do not come back all at once.
    const waitMs = error.retryAfterMs ?? step * (0.5 + Math.random() / 2)
    if (now + waitMs - this.#since > this.#forMs) throw error
    await sleep(waitMs, signal)
  }
}

/** Throws `cancelled` when the signal comes first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(cancelled(signal))
    const stop = () => {
      clearTimeout(timer)
      if (signal !== undefined) reject(cancelled(signal))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
