/** So many a second; after a pause, as many at once. */
export class RateLimit {
  readonly #perSecond: number
  readonly #now: () => number
  #left: number
  #atMs: number

  constructor(perSecond: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond
    this.#now = now
    this.#left = perSecond
    this.#atMs = now()
  }

  /** False when there have been too many. */
  take(): boolean {
    const now = this.#now()
    this.#left = Math.min(this.#perSecond, this.#left + ((now - this.#atMs) / 1000) * this.#perSecond)
    this.#atMs = now
    if (this.#left < 1) return false
    this.#left--
    return true
  }
}
