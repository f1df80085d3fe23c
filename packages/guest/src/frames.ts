/** The wire format of PROTOCOL.md. */
export const FrameType = {
  hello: 1,
  request: 2,
  item: 3,
  data: 4,
  end: 5,
  error: 6,
  cancel: 7,
  credit: 8,
} as const

export interface Frame {
  readonly type: number
  readonly channel: number
  readonly payload: Buffer
}

export const PROTOCOL_VERSION = 1
export const HEADER_BYTES = 10
/** The longest payload that is ever sent, that of a REQUEST: a code string of the largest size, escaped, with room to spare. */
export const FRAME_MAX_BYTES = 32 * 1024 ** 2
/** DATA is sent in pieces of this size, so that channels take turns. */
export const DATA_FRAME_BYTES = 256 * 1024
/** How much may be under way on one channel in one direction. */
export const WINDOW_BYTES = 1024 ** 2

export function encodeFrame(type: number, channel: number, payload?: Uint8Array): Buffer {
  const length = payload?.byteLength ?? 0
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length)
  frame.writeUInt32BE(length, 0)
  frame.writeUInt16BE(type << 8, 4)
  frame.writeUInt32BE(channel, 6)
  if (payload !== undefined) frame.set(payload, HEADER_BYTES)
  return frame
}

export function encodeJsonFrame(type: number, channel: number, value: unknown): Buffer {
  const text = JSON.stringify(value)
  const length = Buffer.byteLength(text)
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length)
  frame.writeUInt32BE(length, 0)
  frame.writeUInt16BE(type << 8, 4)
  frame.writeUInt32BE(channel, 6)
  frame.write(text, HEADER_BYTES)
  return frame
}

/**
 * The longest payload of each type that an agent may send (PROTOCOL.md). A result of a run is one ITEM, of up to 24 MiB; no END is longer than
 * a list of every run and process that an agent knows.
 */
const ANSWER_MAX_BYTES: Readonly<Record<number, number>> = {
  [FrameType.hello]: 4 * 1024,
  [FrameType.item]: 25 * 1024 ** 2,
  [FrameType.data]: DATA_FRAME_BYTES,
  [FrameType.end]: 4 * 1024 ** 2,
  [FrameType.error]: 64 * 1024,
  [FrameType.credit]: 4,
}

export function answerMaxBytes(type: number): number {
  const bytes = ANSWER_MAX_BYTES[type]
  if (bytes === undefined) throw new Error(`an agent sends no frames of type ${type}`)
  return bytes
}

export class FrameTooLargeError extends Error {
  constructor(type: number, lengthBytes: number, maxBytes: number) {
    super(`a frame of type ${type} has ${lengthBytes} bytes, at most ${maxBytes} are allowed`)
  }
}

const NOTHING = Buffer.alloc(0)

/** Cuts a byte stream into frames. Payloads are views of what was pushed where that is possible without copying. */
export class FrameDecoder {
  readonly #maxBytesOf: (type: number) => number
  /** The beginning of a frame. One buffer that grows with what has come: neither the announced length nor many small pieces cost more. */
  #held = NOTHING
  #heldBytes = 0
  #neededBytes = HEADER_BYTES

  /** `maxBytesOf` says how long the payload of a type may be; it throws for types that must not come. */
  constructor(maxBytesOf: (type: number) => number = () => FRAME_MAX_BYTES) {
    this.#maxBytesOf = maxBytesOf
  }

  /** Bytes of a frame whose end has not come yet. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  push(chunk: Buffer): Frame[] {
    const bytes = this.#heldBytes === 0 ? chunk : this.#join(chunk)
    if (bytes === undefined) return []
    const frames: Frame[] = []
    let at = 0
    this.#neededBytes = HEADER_BYTES
    while (bytes.byteLength - at >= HEADER_BYTES) {
      const length = bytes.readUInt32BE(at)
      const type = bytes.readUInt8(at + 4)
      const maxBytes = this.#maxBytesOf(type)
      if (length > maxBytes) throw new FrameTooLargeError(type, length, maxBytes)
      const next = at + HEADER_BYTES + length
      if (next > bytes.byteLength) {
        this.#neededBytes = HEADER_BYTES + length
        break
      }
      const payload = bytes.subarray(at + HEADER_BYTES, next)
      frames.push({ type, channel: bytes.readUInt32BE(at + 6), payload })
      at = next
    }
    if (at < bytes.byteLength) this.#hold(bytes.subarray(at))
    return frames
  }

  /** What is held and this behind it, or undefined while the frame is not whole. */
  #join(chunk: Buffer): Buffer | undefined {
    this.#hold(chunk)
    if (this.#heldBytes < this.#neededBytes) return undefined
    const bytes = this.#held.subarray(0, this.#heldBytes)
    this.#held = NOTHING
    this.#heldBytes = 0
    return bytes
  }

  #hold(piece: Buffer): void {
    const bytes = this.#heldBytes + piece.byteLength
    if (bytes > this.#held.byteLength) {
      // Doubling keeps a long frame that arrives in many pieces linear.
      const grown = Buffer.allocUnsafe(
        Math.max(bytes, Math.min(2 * this.#held.byteLength, this.#neededBytes)),
      )
      this.#held.copy(grown, 0, 0, this.#heldBytes)
      this.#held = grown
    }
    piece.copy(this.#held, this.#heldBytes)
    this.#heldBytes = bytes
  }
}
