/**
 * Whether the client of a request has gone. Most requests are answered without waiting for anything, so the signal is
 * made only when it is asked for.
 */
export class Departure {
  /** What else to do when the client goes. Cheaper than a signal. */
  onLeave: (() => void) | undefined
  readonly #onGone: () => void
  #controller: AbortController | undefined
  #hasGone = false

  constructor(onGone: () => void) {
    this.#onGone = onGone
  }

  get hasGone(): boolean {
    return this.#hasGone
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#hasGone) this.#controller.abort()
    return this.#controller.signal
  }

  /** May be called again. */
  readonly leave = () => {
    if (this.#hasGone) return
    this.#hasGone = true
    this.#onGone()
    this.onLeave?.()
    this.#controller?.abort()
  }
}
