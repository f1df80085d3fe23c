export interface RateLimit {
  /** Requests per second in the long run. */
  readonly perSecond: number
  /** How many may come at once after a pause. At least 1. */
  readonly burst: number
}

/** Holds up to `burst` tokens, gets `perSecond` of them back each second, and gives one to each request. */
export class TokenBucket {
  readonly #limit: RateLimit
  readonly #nowMs: () => number
  #tokens: number
  #filledAtMs: number

  /** `nowMs` must not go backwards: a monotonic clock. */
  constructor(limit: RateLimit, nowMs: () => number) {
    this.#limit = limit
    this.#nowMs = nowMs
    this.#tokens = limit.burst
    this.#filledAtMs = nowMs()
  }

  /** 0 when a token was taken, else the milliseconds until there is one. A refusal costs nothing. */
  take(): number {
    const { perSecond, burst } = this.#limit
    const now = this.#nowMs()
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#filledAtMs) / 1000) * perSecond)
    this.#filledAtMs = now
    if (this.#tokens >= 1) {
      this.#tokens -= 1
      return 0
    }
    return Math.ceil(((1 - this.#tokens) / perSecond) * 1000)
  }
}
