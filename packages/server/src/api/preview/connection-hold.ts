import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'

/** Keeps a sandbox awake for a connection: until disposed or, after `mayIdle`, while bytes have moved recently. */
export class ConnectionHold implements Disposable {
  readonly #begin: () => Disposable
  readonly #idleMs: number
  #hold: Disposable | undefined
  #timer: NodeJS.Timeout | undefined
  #movedAt = 0
  #isOver = false

  constructor(sandbox: SandboxHandle, { what, idleMs }: { what: string; idleMs: number }) {
    this.#begin = () => sandbox.hold(what, undefined, 'connection')
    this.#idleMs = idleMs
    this.#hold = this.#begin()
  }

  /**
   * Call when the response has started. A pending response counts as work however long it takes; silence after this
   * does not.
   */
  mayIdle(): void {
    if (this.#timer !== undefined || this.#isOver) return
    this.touch()
    this.#watch(this.#idleMs)
  }

  touch(): void {
    this.#movedAt = performance.now()
    if (this.#hold !== undefined || this.#isOver) return
    this.#hold = this.#begin()
    this.#watch(this.#idleMs)
  }

  #watch(ms: number): void {
    // One timer that checks again, instead of a new timer for every chunk.
    this.#timer = setTimeout(() => {
      const leftMs = this.#movedAt + this.#idleMs - performance.now()
      if (leftMs > 0) this.#watch(leftMs)
      else this.#stop()
    }, ms)
    this.#timer.unref()
  }

  #stop(): void {
    this.#hold?.[Symbol.dispose]()
    this.#hold = undefined
  }

  [Symbol.dispose](): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#stop()
  }
}
