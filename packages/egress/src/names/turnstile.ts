/** Lets some in at a time, some wait, and turns the rest away. */
export class Turnstile {
  #inside = 0
  readonly #waiting: (() => void)[] = []
  readonly #maxInside: number
  readonly #maxWaiting: number

  constructor({ maxInside, maxWaiting }: { readonly maxInside: number; readonly maxWaiting: number }) {
    this.#maxInside = maxInside
    this.#maxWaiting = maxWaiting
  }

  /** Undefined, and `work` not begun, when there are too many. */
  async pass<T>(work: () => Promise<T>): Promise<T | undefined> {
    if (this.#inside >= this.#maxInside) {
      if (this.#waiting.length >= this.#maxWaiting) return undefined
      // Whoever leaves hands its place on, so `#inside` stays as it is.
      await new Promise<void>((enter) => this.#waiting.push(enter))
    } else {
      this.#inside++
    }
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#inside--
      else next()
    }
  }
}
