import { cancelled, type DormouseError } from './error.ts'

/** Calls `listener` when the signal aborts, at once if it has. Returns a function that removes the listener. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => {}
  if (signal.aborted) {
    listener()
    return () => {}
  }
  signal.addEventListener('abort', listener, { once: true })
  return () => signal.removeEventListener('abort', listener)
}

/** Throws `cancelled` if the signal aborts first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let stopListening = () => {}
    const timer = setTimeout(() => {
      stopListening()
      resolve()
    }, ms)
    stopListening = onAbort(signal, () => {
      clearTimeout(timer)
      if (signal !== undefined) reject(cancelled(signal))
    })
  })
}

/** Rejects if `promise` does not settle within `ms`. */
export function withTimeout<Value>(promise: Promise<Value>, ms: number, message: string): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(message)), ms)
    promise.finally(() => clearTimeout(timer)).then(resolve, reject)
  })
}

const TIMED_OUT = new Error('the time is over')

/** Aborts with the caller's signal or after a time. Release it: the caller's signal may live much longer. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #timer: ReturnType<typeof setTimeout> | undefined
  readonly #stopListening: () => void

  /** `timeoutMs` 0: no time limit. */
  constructor(parent: AbortSignal | undefined, timeoutMs: number) {
    this.#stopListening = onAbort(parent, () => this.#controller.abort(parent?.reason))
    if (timeoutMs > 0) this.#timer = setTimeout(() => this.#controller.abort(TIMED_OUT), timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get hasPassed(): boolean {
    return this.signal.reason === TIMED_OUT
  }

  /** Removes the time limit. */
  stopTimer(): void {
    clearTimeout(this.#timer)
  }

  release(): void {
    this.stopTimer()
    this.#stopListening()
  }
}

const FIRST_DELAY_MS = 50
const MAX_DELAY_MS = 2_000

/** Waits longer after every failure, until there was no success for `giveUpAfterMs`. */
export class Backoff {
  readonly #giveUpAfterMs: number
  #failures = 0
  #failingSince: number | undefined

  constructor(giveUpAfterMs: number) {
    this.#giveUpAfterMs = giveUpAfterMs
  }

  /** Call this after a success. */
  reset(): void {
    this.#failures = 0
    this.#failingSince = undefined
  }

  /** Waits before the next attempt. Throws `error` when it is time to give up. */
  async wait(error: DormouseError, signal?: AbortSignal): Promise<void> {
    const now = Date.now()
    this.#failingSince ??= now
    const step = Math.min(FIRST_DELAY_MS * 2 ** this.#failures, MAX_DELAY_MS)
    this.#failures += 1
    // Random, so that the clients of a restarted server do not all come back at the same moment.
    const delayMs = error.retryAfterMs ?? step * (0.5 + Math.random() / 2)
    if (now + delayMs - this.#failingSince > this.#giveUpAfterMs) throw error
    await sleep(delayMs, signal)
  }
}
