import { Duplex } from 'node:stream'
import { FRAME_MAX_BYTES, FrameType, WINDOW_BYTES } from './link-codec.ts'

interface LinkStreamOptions {
  readonly send: (type: number, payload?: Uint8Array) => void
  /** Whether the guest has read most of what was sent to it. Otherwise `continueSending` is called when it has. */
  readonly hasRoom: () => boolean
  readonly onClose: () => void
}

/** One connection to a program of the guest. Each side waits for the other to read. */
export class LinkStream extends Duplex {
  readonly #send: LinkStreamOptions['send']
  readonly #hasRoom: () => boolean
  readonly #onClose: () => void
  /** What the guest still accepts, and what it may still send. */
  #credit = WINDOW_BYTES
  #window = WINDOW_BYTES
  #unread = 0
  /** The reader wants more, and the guest has not been told. */
  #owesCredit = false
  #waiting: { chunk: Buffer; done: (error?: Error | null) => void } | undefined
  #isOver = false
  #resetWith: Error | undefined
  /** What the reader and the writer see instead of an error of the link. */
  explain = (error: Error): Error => error

  constructor({ send, hasRoom, onClose }: LinkStreamOptions) {
    super({ allowHalfOpen: true, readableHighWaterMark: 64 * 1024, writableHighWaterMark: 64 * 1024 })
    this.#send = send
    this.#hasRoom = hasRoom
    this.#onClose = onClose
  }

  /** Bytes from the guest. Throws when it sends more than it may. */
  receive(payload: Buffer): void {
    this.#window -= payload.length
    if (this.#window < 0) throw new Error('the guest sent more than its window allows')
    this.#unread += payload.length
    if (this.push(payload)) this.#giveCredit()
  }

  receiveEnd(): void {
    this.push(null)
  }

  receiveCredit(bytes: number): void {
    this.#credit = Math.min(WINDOW_BYTES, this.#credit + bytes)
    this.#flush()
  }

  /** The guest reads again. */
  continueSending(): void {
    if (this.#owesCredit) this.#giveCredit()
    this.#flush()
  }

  /** The program of the guest has reset it. What came before is read first. */
  receiveReset(error: Error): void {
    this.#isOver = true
    if (this.readableLength === 0) this.destroy(error)
    else this.#resetWith = error
  }

  override read(size?: number): unknown {
    const piece: unknown = super.read(size)
    const error = this.#resetWith
    if (error !== undefined && this.readableLength === 0) process.nextTick(() => this.destroy(error))
    return piece
  }

  /** The guest, or the end of the link, has ended it. */
  fail(error: Error): void {
    this.#isOver = true
    this.destroy(error)
  }

  override _read(): void {
    this.#giveCredit()
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#waiting = { chunk, done }
    this.#flush()
  }

  override _final(done: (error?: Error | null) => void): void {
    if (!this.#isOver) this.#send(FrameType.end)
    done()
  }

  override _destroy(cause: Error | null, done: (error?: Error | null) => void): void {
    const error = cause === null ? null : this.explain(cause)
    const hasEnded = this.readableEnded && this.writableFinished
    if (!this.#isOver && !hasEnded) this.#send(FrameType.reset)
    this.#isOver = true
    this.#onClose()
    this.#waiting?.done(error ?? new Error('the connection has ended'))
    this.#waiting = undefined
    done(error)
  }

  #giveCredit(): void {
    if (this.#unread === 0 || this.#isOver) return
    this.#owesCredit = !this.#hasRoom()
    if (this.#owesCredit) return
    const credit = Buffer.alloc(4)
    credit.writeUInt32BE(this.#unread)
    this.#window += this.#unread
    this.#unread = 0
    this.#send(FrameType.credit, credit)
  }

  #flush(): void {
    while (this.#waiting !== undefined && this.#credit > 0 && this.#hasRoom()) {
      const { chunk, done } = this.#waiting
      const part = chunk.subarray(0, Math.min(this.#credit, FRAME_MAX_BYTES))
      this.#credit -= part.length
      this.#send(FrameType.data, part)
      if (part.length < chunk.length) this.#waiting = { chunk: chunk.subarray(part.length), done }
      else {
        this.#waiting = undefined
        done()
      }
    }
  }
}
