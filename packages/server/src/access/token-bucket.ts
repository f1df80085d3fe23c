export interface RateLimit {
  /** Requests per second in the long run. */
  readonly perSecond: number
  /** How many may come at once after a pause. At least 1. */
  readonly burst: number
}

/** Steps such as 1000 / 7 ms are not exact: a full bucket must not look a hair short of a token. */
const ROUNDING_MS = 1e-3

/**
 * Holds up to `burst` tokens, gets `perSecond` of them back each second, and gives one to each request. Kept as the moment at which it
 * will be full again: a time that each request moves on by the same step gathers no rounding errors, a count of fractions does.
 */
export class TokenBucket {
  readonly #stepMs: number
  readonly #depthMs: number
  readonly #nowMs: () => number
  #fullAtMs = Number.NEGATIVE_INFINITY

  /** `nowMs` must not go backwards: a monotonic clock. */
  constructor({ perSecond, burst }: RateLimit, nowMs: () => number) {
    this.#stepMs = 1000 / perSecond
    this.#depthMs = burst * this.#stepMs
    this.#nowMs = nowMs
  }

  /** 0 when a token was taken, else the milliseconds until there is one. A refusal costs nothing. */
  take(): number {
    const now = this.#nowMs()
    const fullAt = Math.max(now, this.#fullAtMs) + this.#stepMs
    const waitMs = Math.ceil(fullAt - now - this.#depthMs - ROUNDING_MS)
    if (waitMs > 0) return waitMs
    this.#fullAtMs = fullAt
    return 0
  }
}
