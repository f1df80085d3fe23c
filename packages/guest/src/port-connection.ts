import { Duplex } from 'node:stream'
import { malformed } from './agent-value.ts'
import type { Channel } from './channel.ts'

/** What each direction may hold besides the channel's window. */
const BUFFERED_BYTES = 64 * 1024

/** A TCP connection inside, as a stream. Destroying it resets the connection, ending it ends this half only. */
export class PortConnection extends Duplex {
  readonly #channel: Channel
  #wanted: (() => void) | undefined
  #hasEnded = false
  #hasFailed = false

  private constructor(channel: Channel) {
    super({ allowHalfOpen: true, highWaterMark: BUFFERED_BYTES })
    this.#channel = channel
  }

  /** Post: it is connected. Throws what the agent says instead. */
  static async open(channel: Channel): Promise<PortConnection> {
    const received = channel.received()
    const first = await received.next()
    if (first.done === true || typeOf(first.value) !== 'open') {
      await received.return(undefined)
      throw malformed('answer to port.connect')
    }
    const connection = new PortConnection(channel)
    channel.result.catch(() => connection.#stopWaiting())
    void connection.#follow(received)
    return connection
  }

  async #follow(received: AsyncGenerator<unknown, void>): Promise<void> {
    try {
      for await (const value of received) {
        if (value instanceof Uint8Array) {
          if (this.#hasEnded) throw malformed('order of a connection')
          if (!this.push(value)) await this.#untilWanted()
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

  async #untilWanted(): Promise<void> {
    if (this.#hasFailed) return
    await new Promise<void>((resolve) => {
      this.#wanted = resolve
    })
  }

  /** What came before a failure is passed on, and then the failure, also when nobody reads: whoever holds the other end must hear of it. */
  #stopWaiting(): void {
    this.#hasFailed = true
    this._read()
  }

  override _read(): void {
    this.#wanted?.()
    this.#wanted = undefined
  }

  override _write(piece: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    // When the request is over `#follow` hears why.
    this.#channel.sendPiece(piece).then(() => done(), done)
  }

  override _final(done: () => void): void {
    this.#channel.sendEnd()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // When both halves have ended, the last bytes may still be on their way in: cancelling would overtake them.
    if (error !== null || !this.#hasEnded || !this.writableFinished) this.#channel.cancel(error)
    this._read()
    done(error)
  }
}

function typeOf(item: unknown): unknown {
  return (item as { type?: unknown } | null | undefined)?.type
}
