import type { PortConnection } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'

/**
 * Keeps a sandbox awake for a connection: until disposed or, after `mayIdle`, while bytes have moved recently. Then the
 * sandbox may sleep; the connection outlives that, and bytes from the client wake it.
 */
export class ConnectionHold implements Disposable {
  readonly #sandbox: Pick<SandboxHandle, 'hold' | 'keep' | 'use'>
  readonly #what: string
  readonly #idleMs: number
  #hold: Disposable | undefined
  #timer: NodeJS.Timeout | undefined
  #movedAt = 0
  #isOver = false
  #isWaking = false
  #connection: PortConnection | undefined

  constructor(
    sandbox: Pick<SandboxHandle, 'hold' | 'keep' | 'use'>,
    { what, idleMs }: { what: string; idleMs: number },
  ) {
    this.#sandbox = sandbox
    this.#what = what
    this.#idleMs = idleMs
    this.#hold = this.#begin()
  }

  /** Call with the connection as soon as it is open, and while the sandbox cannot be saved if possible. */
  follow(connection: PortConnection): void {
    this.#connection?.off('parked', this.#onParked)
    this.#connection = connection.on('parked', this.#onParked)
    this.#sandbox.keep(connection, { isAwaited: true })
  }

  /**
   * Call when the response has started. A pending response counts as work however long it takes; silence after this
   * does not.
   */
  mayIdle(): void {
    if (this.#timer !== undefined || this.#isOver) return
    if (this.#connection !== undefined) this.#sandbox.keep(this.#connection)
    this.touch()
    this.#watch(this.#idleMs)
  }

  touch(): void {
    this.#movedAt = performance.now()
    if (this.#isOver) return
    if (this.#connection?.isParked === true) this.#wake()
    if (this.#hold !== undefined) return
    this.#hold = this.#begin()
    this.#watch(this.#idleMs)
  }

  /** The client has sent what the program has not received, and may send nothing more before it has. */
  readonly #onParked = () => {
    if (this.#connection !== undefined && this.#connection.writableLength > 0) this.#wake()
  }

  #begin(): Disposable {
    return this.#sandbox.hold(this.#what, undefined, 'connection')
  }

  /** The client has sent something. A sandbox that cannot wake leaves it waiting, until the client gives up. */
  #wake(): void {
    if (this.#isWaking) return
    this.#isWaking = true
    void this.#sandbox
      .use({ cause: 'port', what: this.#what }, async () => {})
      .catch(() => {})
      .finally(() => {
        this.#isWaking = false
      })
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
    this.#connection?.off('parked', this.#onParked)
    clearTimeout(this.#timer)
    this.#stop()
  }
}
