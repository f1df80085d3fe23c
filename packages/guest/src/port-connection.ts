import { Duplex } from 'node:stream'
import { malformed } from './agent-value.ts'
import type { Channel } from './channel.ts'

/** Buffered in each direction besides the channel's window. */
const BUFFERED_BYTES = 64 * 1024

/** A TCP connection inside, as a stream. Destroying it resets the connection; ending it ends this half only. */
export class PortConnection extends Duplex {
  readonly #channel: Channel
  #resumeReading: (() => void) | undefined
  #hasEnded = false
  #hasFailed = false

  private constructor(channel: Channel) {
    super({ allowHalfOpen: true, highWaterMark: BUFFERED_BYTES })
    this.#channel = channel
  }

  /** Resolves when the connection is open. Throws the error of the agent. */
  static async open(channel: Channel): Promise<PortConnection> {
    const received = channel.received()
    const first = await received.next()
    if (first.done === true || typeOf(first.value) !== 'open') {
      await received.return(undefined)
      throw malformed('answer to port.connect')
    }
    const connection = new PortConnection(channel)
    // The reader of the connection gets the error.
    channel.result.catch(() => connection.#stopWaiting())
    void connection.#follow(received)
    return connection
  }

  async #follow(received: AsyncGenerator<unknown, void>): Promise<void> {
    try {
      for await (const value of received) {
        if (value instanceof Uint8Array) {
          if (this.#hasEnded) throw malformed('order of a connection')
          if (!this.push(value)) await this.#waitUntilRead()
        } else {
          if (this.#hasEnded || typeOf(value) !== 'end') throw malformed('message of a connection')
          this.#hasEnded = true
          this.push(null)
        }
        if (this.destroyed) return
      }
      if (!this.#hasEnded) throw malformed('end of a connection')
    } catch (error) {
      this.destroy(error as Error)
    }
  }

  async #waitUntilRead(): Promise<void> {
    if (this.#hasFailed) return
    await new Promise<void>((resolve) => {
      this.#resumeReading = resolve
    })
  }

  /**
   * Passes on what came before a failure, then the failure, even if the stream is not read: its holder must notice
   * it.
   */
  #stopWaiting(): void {
    this.#hasFailed = true
    this._read()
  }

  override _read(): void {
    this.#resumeReading?.()
    this.#resumeReading = undefined
  }

  override _write(piece: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    // If the request has ended, `#follow` reports why.
    this.#channel.sendPiece(piece).then(() => done(), done)
  }

  override _final(done: () => void): void {
    this.#channel.sendEnd()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // When both halves have ended, the last bytes may still be on their way in. Cancelling would drop them.
    if (error !== null || !this.#hasEnded || !this.writableFinished) this.#channel.cancel(error)
    this._read()
    done(error)
  }
}

function typeOf(item: unknown): unknown {
  return (item as { type?: unknown } | null | undefined)?.type
}
