import type { Sandbox } from '../../sandbox/service.ts'

/** Keeps a sandbox awake for a connection: until it is disposed, or (once it `mayIdle`) while something has moved lately. */
export class ConnectionHold implements Disposable {
  readonly #begin: () => Disposable
  readonly #idleMs: number
  #hold: Disposable | undefined
  #timer: NodeJS.Timeout | undefined
  #movedAt = 0
  #isOver = false

  constructor(sandbox: Sandbox, { what, idleMs }: { what: string; idleMs: number }) {
    this.#begin = () => sandbox.hold(what, undefined, 'connection')
    this.#idleMs = idleMs
    this.#hold = this.#begin()
  }

  /** An answer that is awaited is work however long it takes; from now on silence is none. */
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
    // One timer that looks again, instead of one that every piece of data sets anew.
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
