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
/** The longest payload that the host sends: a REQUEST with the longest code, escaped, and room to spare. */
export const FRAME_MAX_BYTES = 32 * 1024 ** 2
/** DATA is sent in pieces of this size, so that channels alternate. */
export const DATA_FRAME_BYTES = 256 * 1024
/** Bytes in flight on one channel in one direction. */
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
 * The longest payload of each type that an agent may send (PROTOCOL.md). A result of a run is one ITEM of up to 24
 * MiB. The longest END is a list of processes.
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
  if (bytes === undefined) throw new Error(`an agent must not send frames of type ${type}`)
  return bytes
}

export class FrameTooLargeError extends Error {
  constructor(type: number, lengthBytes: number, maxBytes: number) {
    super(`a frame of type ${type} has ${lengthBytes} bytes, at most ${maxBytes} are allowed`)
  }
}

const NOTHING = Buffer.alloc(0)

/** Splits a byte stream into frames. Payloads are views of the pushed chunks where possible. */
export class FrameDecoder {
  readonly #maxBytesOf: (type: number) => number
  /**
   * The beginning of an incomplete frame. The buffer grows with the bytes received, so neither a large announced
   * length nor many small pieces cost more memory.
   */
  #held = NOTHING
  #heldBytes = 0
  #neededBytes = HEADER_BYTES

  /** `maxBytesOf` returns the longest payload of a type, and throws for types that are not allowed. */
  constructor(maxBytesOf: (type: number) => number = () => FRAME_MAX_BYTES) {
    this.#maxBytesOf = maxBytesOf
  }

  /** Bytes of a frame that is not complete yet. */
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

  /** The held bytes followed by `chunk`, or undefined while the frame is incomplete. */
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
      // Doubling keeps the cost of a long frame in many pieces linear.
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
