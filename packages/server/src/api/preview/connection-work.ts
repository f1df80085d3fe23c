import type { Sandbox } from '../../sandbox/service.ts'

/** Keeps a sandbox awake for a connection: until it is disposed, or (once it `mayIdle`) while something has moved lately. */
export class ConnectionWork implements Disposable {
  readonly #begin: () => Disposable
  readonly #idleMs: number
  #work: Disposable | undefined
  #timer: NodeJS.Timeout | undefined
  #movedAt = 0
  #isOver = false

  constructor(sandbox: Sandbox, { what, idleMs }: { what: string; idleMs: number }) {
    this.#begin = () => sandbox.hold(what, undefined, 'connection')
    this.#idleMs = idleMs
    this.#work = this.#begin()
  }

  /** An answer that is awaited is work however long it takes; from now on silence is none. */
  mayIdle(): void {
    if (this.#timer !== undefined || this.#isOver) return
    this.moved()
    this.#watch(this.#idleMs)
  }

  moved(): void {
    this.#movedAt = performance.now()
    if (this.#work !== undefined || this.#isOver) return
    this.#work = this.#begin()
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
    this.#work?.[Symbol.dispose]()
    this.#work = undefined
  }

  [Symbol.dispose](): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#stop()
  }
}
