import { settledWithin } from '@dormouse/async'

/** Hears of calls to a sandbox while it falls asleep. Dispose of it when the sandbox sleeps, or stays awake. */
export class CallWatch implements Disposable {
  readonly #controller = new AbortController()
  readonly #begun = new Set<object>()
  /** Those that `ended` waits for. */
  readonly #awaited = new Set<object>()
  readonly #stop: (watch: CallWatch) => void
  #notify = () => {}

  constructor(stop: (watch: CallWatch) => void) {
    this.#stop = stop
  }

  /** Aborts when a caller needs the sandbox. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Calls that began while this watched have not ended. */
  get isNeeded(): boolean {
    return this.#begun.size > 0
  }

  interrupt(): void {
    this.#controller.abort()
  }

  /** `isAwaited`: it ends by itself, unlike a connection that carries bytes all the time. */
  begin(call: object, { isAwaited }: { isAwaited: boolean }): void {
    this.#begun.add(call)
    if (isAwaited) this.#awaited.add(call)
    this.interrupt()
  }

  end(call: object): void {
    this.#begun.delete(call)
    this.#awaited.delete(call)
    if (this.#awaited.size === 0) this.#notify()
  }

  /** Resolves when the calls that began and end by themselves have ended, or after this time. */
  async ended(timeoutMs: number): Promise<void> {
    if (this.#awaited.size === 0) return
    const ended = new Promise<void>((resolve) => {
      this.#notify = resolve
    })
    await settledWithin(ended, timeoutMs)
  }

  [Symbol.dispose](): void {
    this.#stop(this)
  }
}
