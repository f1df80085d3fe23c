import { checkTimeout } from './check.ts'
import { cancelled, type DormouseError, throwIfAborted, timedOut } from './error.ts'
import type { CallOptions } from './options.ts'

/** One listener per signal: Node warns of a leak when many calls that share a signal each add their own. */
const abortListeners = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `listener` when the signal aborts, at once if it has. Returns a function that removes the listener. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => {}
  if (signal.aborted) {
    listener()
    return () => {}
  }
  const waiting = abortListeners.get(signal) ?? listenOnce(signal)
  // A function of its own, so that the same listener can be added twice.
  const call = () => listener()
  waiting.add(call)
  return () => waiting.delete(call)
}

function listenOnce(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>()
  abortListeners.set(signal, waiting)
  signal.addEventListener(
    'abort',
    () => {
      for (const call of waiting) call()
      waiting.clear()
    },
    { once: true },
  )
  return waiting
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

/** Calls `work` with a signal that aborts with the caller's or after `timeoutMs`; the latter throws `timed_out`. */
export async function withinTime<Value>(
  { signal, timeoutMs = 0 }: CallOptions,
  work: (signal: AbortSignal | undefined) => Promise<Value>,
): Promise<Value> {
  checkTimeout('timeoutMs', timeoutMs)
  throwIfAborted(signal)
  if (timeoutMs === 0) return work(signal)
  const deadline = new Deadline(signal, timeoutMs)
  try {
    return await work(deadline.signal)
  } catch (error) {
    throw causeOf(error, deadline, { signal, timeoutMs })
  } finally {
    deadline.release()
  }
}

/** The same for a stream: the time is for reading all of it. */
export async function* eachWithinTime<Item>(
  { signal, timeoutMs = 0 }: CallOptions,
  open: (signal: AbortSignal | undefined) => AsyncIterable<Item>,
): AsyncGenerator<Item, void, undefined> {
  checkTimeout('timeoutMs', timeoutMs)
  throwIfAborted(signal)
  const deadline = new Deadline(signal, timeoutMs)
  try {
    for await (const item of open(timeoutMs === 0 ? signal : deadline.signal)) yield item
  } catch (error) {
    throw causeOf(error, deadline, { signal, timeoutMs })
  } finally {
    deadline.release()
  }
}

function causeOf(error: unknown, deadline: Deadline, { signal, timeoutMs = 0 }: CallOptions): unknown {
  if (signal?.aborted) return cancelled(signal)
  return deadline.hasPassed ? timedOut(timeoutMs) : error
}

/** Stops waiting when the signal aborts; the promise continues. */
export function unlessAborted<Value>(
  promise: Promise<Value>,
  signal: AbortSignal | undefined,
): Promise<Value> {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const stopListening = onAbort(signal, () => reject(cancelled(signal)))
    promise.finally(() => stopListening()).then(resolve, reject)
  })
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
