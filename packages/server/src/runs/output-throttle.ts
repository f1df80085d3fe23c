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

/** After a tick that came late output is let in at half the rate; it takes so many ticks in time to get back to the full one. */
const TICKS_TO_RECOVER = 200

/**
 * Shares among runs what the event loop takes in of their output. A run that has to wait is not read from, and its agent keeps what it
 * says, as much as it can hold. The turns are by bytes: one with large events gets no more than one with many. How much there is to share
 * depends on the event loop: when its timers come late, output has to wait, and everything else has not.
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

  /** Settles when it is this run's turn to say so much more; undefined: at once. */
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

  /** One round: each waiting run once. Runs that were served queue again before the next round. */
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
    // Two ticks' worth: a timer is never quite in time. What was due while the event loop was busy is not caught up on.
    this.#tokens = Math.min(this.#bytesPerMs * OUTPUT_TICK_MS * 2, this.#tokens + earned)
    this.#filledAt = now
  }
}
