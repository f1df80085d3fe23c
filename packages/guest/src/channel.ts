import { DormouseError } from '@dormouse/contracts'
import type { ByteSource } from '@dormouse/engine'
import { FrameQueue } from './frame-queue.ts'
import { DATA_FRAME_BYTES, FrameType, WINDOW_BYTES } from './frames.ts'
import { parseAgentJson } from './parse-agent-json.ts'

interface ChannelLink {
  readonly send: (type: number, payload?: Uint8Array) => void
  readonly onClose: () => void
  /** Whether sent frames wait for the agent to read them. */
  readonly isBackedUp: () => boolean
  /** Ends the connection, and with it this channel. */
  readonly onMalformed: (cause: unknown) => void
}

/** CREDIT is returned in steps of this size rather than per frame. */
const CREDIT_STEP_BYTES = WINDOW_BYTES / 4
/** A result may be 4 MiB of any JSON: a number and its comma take two bytes. */
const ITEM_VALUES_MAX = 2_200_000

/** One request and its answer: items or data, then a result. */
export class Channel {
  readonly #link: ChannelLink | undefined
  readonly result: Promise<unknown>
  #settle: { resolve: (value: unknown) => void; reject: (error: DormouseError) => void } | undefined
  readonly #waiting = new FrameQueue()
  #wakeReader: (() => void) | undefined
  #consumedBytes = 0
  #receivableBytes = WINDOW_BYTES
  #sendableBytes = WINDOW_BYTES
  #wakeSender: (() => void) | undefined

  constructor(link?: ChannelLink) {
    this.#link = link
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // Streams report the failure to their reader; the promise itself may have no listener.
    this.result.catch(() => {})
  }

  static failed(error: DormouseError): Channel {
    const channel = new Channel()
    channel.fail(error)
    return channel
  }

  receiveItem(payload: Buffer): void {
    this.#receive(payload.byteLength)
    this.#enqueue(FrameType.item, payload)
  }

  receiveData(payload: Buffer): void {
    // An empty frame would use up no window.
    if (payload.byteLength === 0) return
    this.#receive(payload.byteLength)
    this.#enqueue(FrameType.data, payload)
  }

  receiveCredit(bytes: number): void {
    if (this.#sendableBytes + bytes > WINDOW_BYTES)
      throw new Error('the agent gave more credit than was used up')
    this.#sendableBytes += bytes
    this.#wakeSender?.()
  }

  finish(result: unknown): void {
    const settle = this.#close()
    settle?.resolve(result)
  }

  fail(error: DormouseError): void {
    const settle = this.#close()
    settle?.reject(error)
  }

  /** Tells the agent to stop. */
  cancel(reason: unknown): void {
    if (this.#settle === undefined) return
    this.#link?.send(FrameType.cancel)
    this.fail(new DormouseError('cancelled', 'The call was cancelled.', { cause: reason }))
  }

  /** Yields items or data in order. Ends with the request, and throws its error. Leaving the loop cancels it. */
  async *received(): AsyncGenerator<unknown, void> {
    try {
      for (;;) {
        for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
          this.#consumed(next.payload.byteLength)
          yield next.type === FrameType.data ? next.payload : this.#parse(next.payload)
        }
        if (this.#settle === undefined) break
        await new Promise<void>((resolve) => {
          this.#wakeReader = resolve
        })
      }
      await this.result
    } finally {
      this.cancel(undefined)
    }
  }

  /** Sends all of `source`, as fast as the agent reads it, then END. Stops early when the request has failed. */
  async send(source: ByteSource): Promise<void> {
    try {
      for await (const piece of pieces(source)) if (!(await this.sendPiece(piece))) return
    } catch (cause) {
      this.cancel(cause)
      throw cause
    }
    this.sendEnd()
  }

  /** Waits for room and sends. False when the request has ended. */
  async sendPiece(piece: Uint8Array): Promise<boolean> {
    for (let at = 0; at < piece.byteLength; at += DATA_FRAME_BYTES) {
      if (!(await this.#canSend())) return false
      const frame = piece.subarray(at, at + DATA_FRAME_BYTES)
      this.#sendableBytes -= frame.byteLength
      this.#link?.send(FrameType.data, frame)
    }
    return this.#settle !== undefined
  }

  /** Sent bytes that the agent has not taken yet, as far as it has said. */
  get untakenBytes(): number {
    return WINDOW_BYTES - this.#sendableBytes
  }

  sendEnd(): void {
    if (this.#settle !== undefined) this.#link?.send(FrameType.end)
  }

  async #canSend(): Promise<boolean> {
    while (this.#settle !== undefined && this.#sendableBytes <= 0) {
      await new Promise<void>((resolve) => {
        this.#wakeSender = resolve
      })
    }
    return this.#settle !== undefined
  }

  /** Enforces the window: a hostile agent could otherwise fill the memory of the host. */
  #receive(bytes: number): void {
    if (this.#receivableBytes <= 0) throw new Error('the agent sent more than the window allows')
    this.#receivableBytes -= bytes
  }

  #enqueue(type: number, payload: Buffer): void {
    if (this.#settle === undefined) return
    this.#waiting.push(type, payload)
    this.#wakeReader?.()
  }

  #parse(payload: Buffer): unknown {
    try {
      return parseAgentJson(payload, { valuesMax: ITEM_VALUES_MAX })
    } catch (cause) {
      this.#waiting.clear()
      this.#link?.onMalformed(cause)
      throw new DormouseError('agent_unreachable', 'The agent sent malformed data.', { cause })
    }
  }

  #consumed(bytes: number): void {
    this.#consumedBytes += bytes
    this.returnCredit()
  }

  /** Sends CREDIT, but not to an agent that does not read: the frames would fill the memory of the host. */
  returnCredit(): void {
    if (this.#consumedBytes < CREDIT_STEP_BYTES || this.#settle === undefined || this.#link?.isBackedUp())
      return
    const credit = Buffer.allocUnsafe(4)
    credit.writeUInt32BE(this.#consumedBytes)
    this.#receivableBytes += this.#consumedBytes
    this.#consumedBytes = 0
    this.#link?.send(FrameType.credit, credit)
  }

  #close() {
    const settle = this.#settle
    this.#settle = undefined
    if (settle !== undefined) this.#link?.onClose()
    this.#wakeReader?.()
    this.#wakeSender?.()
    return settle
  }
}

async function* pieces(source: ByteSource): AsyncGenerator<Uint8Array> {
  if (typeof source === 'string') {
    yield Buffer.from(source)
    return
  }
  if (source instanceof Uint8Array) {
    yield source
    return
  }
  for await (const piece of source) {
    // Anything else has no byteLength and would be skipped silently.
    if (!(piece instanceof Uint8Array)) throw notBytes(piece)
    yield piece
  }
}

/** Called before the request is sent, so that a refusal changes nothing. */
export function requireByteSource(source: unknown): void {
  if (typeof source === 'string' || source instanceof Uint8Array) return
  if (typeof source === 'object' && source !== null && Symbol.asyncIterator in source) return
  throw notBytes(source)
}

function notBytes(value: unknown): DormouseError {
  const seen = value === null ? 'null' : typeof value
  const message = `data: must be a string, bytes, or an async iterable of bytes, got ${seen}`
  return new DormouseError('invalid_argument', message, { details: { field: 'data' } })
}
