import {
  OUTPUT_LATE_MS,
  OUTPUT_LEAST_BYTES_PER_SECOND,
  OUTPUT_MOST_BYTES_PER_SECOND,
  OUTPUT_TICK_MS,
  OUTPUT_TURN_BYTES,
} from './limits.ts'

interface Waiting {
  bytes: number
  readonly resolve: () => void
}

/** A late tick halves the rate. This many ticks in time restore the full rate. */
const TICKS_TO_RECOVER = 200

/**
 * Limits how much output of all runs together the event loop takes, and shares it among runs by bytes, so that a run
 * with large events gets no more than a run with many. The server does not read from a run that waits; its agent
 * buffers the output. When the timers of the event loop are late, the rate falls: output waits, and everything else
 * does not.
 */
export class OutputThrottle {
  readonly #clock: () => number
  #bytesPerMs = OUTPUT_MOST_BYTES_PER_SECOND / 1000
  #tokens = this.#bytesPerMs * OUTPUT_TICK_MS
  #filledAt: number
  #dueAt = 0
  #queue: Waiting[] = []
  #isServing = false

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock
    this.#filledAt = clock()
  }

  get bytesPerSecond(): number {
    return this.#bytesPerMs * 1000
  }

  /** Resolves when the run may send this many bytes. Undefined: at once. */
  spend(bytes: number): Promise<void> | undefined {
    this.#fill()
    if (this.#queue.length === 0 && this.#tokens >= bytes) {
      this.#tokens -= bytes
      return undefined
    }
    if (!this.#isServing) this.#wait()
    return new Promise((resolve) => this.#queue.push({ bytes, resolve }))
  }

  #wait(): void {
    this.#isServing = true
    this.#dueAt = this.#clock() + OUTPUT_TICK_MS
    setTimeout(() => {
      this.#fill()
      this.#adapt(this.#clock() - this.#dueAt)
      this.#serve()
    }, OUTPUT_TICK_MS)
  }

  /** One round: serves each waiting run once. Served runs queue again before the next round. */
  #serve(): void {
    for (let left = this.#queue.length; left > 0 && this.#tokens > 0; left -= 1) {
      const next = this.#queue.shift() as Waiting
      const paid = Math.min(next.bytes, OUTPUT_TURN_BYTES)
      this.#tokens -= paid
      next.bytes -= paid
      if (next.bytes > 0) this.#queue.push(next)
      else next.resolve()
    }
    if (this.#tokens > 0 && this.#queue.length > 0) setImmediate(() => this.#serve())
    else if (this.#queue.length > 0) this.#wait()
    else this.#isServing = false
  }

  #adapt(lateMs: number): void {
    const most = OUTPUT_MOST_BYTES_PER_SECOND / 1000
    const least = OUTPUT_LEAST_BYTES_PER_SECOND / 1000
    this.#bytesPerMs =
      lateMs > OUTPUT_LATE_MS
        ? Math.max(least, this.#bytesPerMs / 2)
        : Math.min(most, this.#bytesPerMs + most / TICKS_TO_RECOVER)
  }

  #fill(): void {
    const now = this.#clock()
    const earned = (now - this.#filledAt) * this.#bytesPerMs
    // At most two ticks' worth: timers are never quite in time, and time in which the event loop was busy earns
    // nothing.
    this.#tokens = Math.min(this.#bytesPerMs * OUTPUT_TICK_MS * 2, this.#tokens + earned)
    this.#filledAt = now
  }
}
