export interface RateLimit {
  /** Average rate. */
  readonly perSecond: number
  /** How many may come at once after a pause. At least 1. */
  readonly burst: number
}

/** Steps such as 1000 / 7 ms are not exact. Without this allowance a full bucket can seem one token short. */
const ROUNDING_MS = 1e-3

/**
 * Holds up to `burst` tokens, regains `perSecond` tokens each second, and gives one to each caller. Its state is the
 * time at which it will be full again: adding the same step each time gathers no rounding errors, counting fractions
 * would.
 */
export class TokenBucket {
  readonly #stepMs: number
  readonly #depthMs: number
  readonly #nowMs: () => number
  #fullAtMs = Number.NEGATIVE_INFINITY

  /** `nowMs` must be a monotonic clock. */
  constructor({ perSecond, burst }: RateLimit, nowMs: () => number = () => performance.now()) {
    this.#stepMs = 1000 / perSecond
    this.#depthMs = burst * this.#stepMs
    this.#nowMs = nowMs
  }

  /** Returns 0 when it took a token, else the milliseconds until there is one. A refusal takes nothing. */
  take(): number {
    const now = this.#nowMs()
    const fullAt = Math.max(now, this.#fullAtMs) + this.#stepMs
    const waitMs = Math.ceil(fullAt - now - this.#depthMs - ROUNDING_MS)
    if (waitMs > 0) return waitMs
    this.#fullAtMs = fullAt
    return 0
  }
}
