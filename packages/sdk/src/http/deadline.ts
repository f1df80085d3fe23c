const PASSED = new Error('the time is over')

/** A signal that follows another one and a clock, and can be let go: the other may live much longer than one request. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #parent: AbortSignal | undefined
  readonly #timer: ReturnType<typeof setTimeout> | undefined
  readonly #follow = () => this.#controller.abort(this.#parent?.reason)

  /** 0: no clock. */
  constructor(parent: AbortSignal | undefined, timeoutMs: number) {
    this.#parent = parent
    if (parent?.aborted) this.#follow()
    else parent?.addEventListener('abort', this.#follow, { once: true })
    if (timeoutMs > 0) this.#timer = setTimeout(() => this.#controller.abort(PASSED), timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get hasPassed(): boolean {
    return this.signal.reason === PASSED
  }

  /** From now on it takes what it takes. */
  stopClock(): void {
    clearTimeout(this.#timer)
  }

  release(): void {
    this.stopClock()
    this.#parent?.removeEventListener('abort', this.#follow)
  }
}
