import { Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import type { PortConnection } from '@dormouse/engine'

/** Read ahead of the reader, besides the buffer of the kernel. */
const BUFFERED_BYTES = 64 * 1024
/** How long a failed write waits for the reader to see what came before the failure. */
const LAST_WORDS_MS = 1_000
const GONE = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ECONNABORTED', 'ENOTCONN', 'ECONNREFUSED'])

/**
 * A connection to a port inside. Each side can end its half alone. Destroying it before both halves have ended resets
 * it.
 */
export class PortSocket extends Socket implements PortConnection {
  outlives = false
  isParked = false
  readonly #port: number
  #isResetting = false
  #reason: Error | undefined

  constructor(fd: number, port: number) {
    super({ fd, allowHalfOpen: true, ...{ highWaterMark: BUFFERED_BYTES } })
    this.#port = port
  }

  /** Ends its half in order, so that the program inside can close. The owner of the stream gets `reason` at the end. */
  endBecause(reason: Error): void {
    this.#reason = reason
    this.end()
  }

  override destroy(error?: Error): this {
    if (this.#isResetting || this.destroyed || (this.readableEnded && this.writableFinished))
      return super.destroy(this.#reason ?? error)
    this.#isResetting = true
    this.#reason ??= error
    return this.resetAndDestroy()
  }

  override _write(piece: unknown, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    super._write(piece, encoding, (error) => this.#afterLastWords(error, done))
  }

  override _writev(
    pieces: { chunk: unknown; encoding: BufferEncoding }[],
    done: (error?: Error | null) => void,
  ): void {
    super._writev?.(pieces, (error) => this.#afterLastWords(error, done))
  }

  /**
   * A program may answer and close before it has read everything. Its answer is still in the kernel when a write fails,
   * and a failed write destroys the stream.
   */
  #afterLastWords(error: Error | null | undefined, done: (error?: Error | null) => void): void {
    if (error === null || error === undefined || this.readableEnded || this.destroyed) {
      done(error)
      return
    }
    const finish = () => {
      clearTimeout(timer)
      this.off('end', finish).off('close', finish)
      done(error)
    }
    const timer = setTimeout(finish, LAST_WORDS_MS)
    this.once('end', finish).once('close', finish)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    super._destroy(this.#explain(error), done)
  }

  #explain(error: Error | null): Error | null {
    if (error === null || !GONE.has((error as NodeJS.ErrnoException).code ?? '')) return error
    return new DormouseError(
      'port_closed',
      `the program inside closed the connection to port ${this.#port}`,
      {
        details: { port: this.#port },
        cause: error,
      },
    )
  }
}
