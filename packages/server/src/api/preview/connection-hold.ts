import { DormouseError } from '@dormouse/contracts'
import type { PortConnection } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'

/** Pause before another attempt to wake a sandbox for bytes that wait. It doubles with each failure. */
const RETRY_MS = 1_000
const RETRY_MAX_MS = 30_000

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
  #retryMs = RETRY_MS
  #retry: NodeJS.Timeout | undefined
  #connection: PortConnection | undefined

  constructor(
    sandbox: Pick<SandboxHandle, 'hold' | 'keep' | 'use'>,
    { what, idleMs }: { what: string; idleMs: number },
  ) {
    this.#sandbox = sandbox
    this.#what = what
    this.#idleMs = idleMs
    this.#hold = sandbox.hold(what, undefined, 'connection')
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
    this.#hold = this.#sandbox.hold(this.#what, undefined, 'bytes')
    this.#watch(this.#idleMs)
  }

  /** The client has sent what the program has not received, and may send nothing more before it has. */
  readonly #onParked = () => {
    if (this.#connection?.isParked === true && this.#connection.writableLength > 0) this.#wake()
  }

  /** The client has sent something. */
  #wake(): void {
    if (this.#isWaking) return
    this.#isWaking = true
    clearTimeout(this.#retry)
    void this.#sandbox
      .use({ cause: 'port', what: this.#what }, async () => {})
      .then(
        () => {
          this.#retryMs = RETRY_MS
        },
        (error: unknown) => this.#wakeLater(error),
      )
      .finally(() => {
        this.#isWaking = false
      })
  }

  /** Nothing else would wake it: the client waits. For other errors it waits until it gives up. */
  #wakeLater(error: unknown): void {
    if (this.#isOver || !(error instanceof DormouseError && error.retry)) return
    this.#retry = setTimeout(this.#onParked, this.#retryMs).unref()
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MAX_MS)
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
    clearTimeout(this.#retry)
    this.#stop()
  }
}
