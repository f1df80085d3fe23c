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
/** The longest payload either side accepts: a code string of the largest size, escaped, with room to spare. */
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

export class FrameTooLargeError extends Error {
  constructor(readonly lengthBytes: number) {
    super(`a frame of ${lengthBytes} bytes is over the limit of ${FRAME_MAX_BYTES}`)
  }
}

/** Cuts a byte stream into frames. Payloads are views of what was pushed where that is possible without copying. */
export class FrameDecoder {
  #pieces: Buffer[] = []
  #heldBytes = 0
  #neededBytes = HEADER_BYTES

  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = []
    this.#pieces.push(chunk)
    this.#heldBytes += chunk.byteLength
    // Joining only once enough is there keeps a long frame that arrives in many chunks linear.
    if (this.#heldBytes < this.#neededBytes) return frames
    const bytes = this.#pieces.length === 1 ? chunk : Buffer.concat(this.#pieces)
    let at = 0
    this.#neededBytes = HEADER_BYTES
    while (bytes.byteLength - at >= HEADER_BYTES) {
      const length = bytes.readUInt32BE(at)
      if (length > FRAME_MAX_BYTES) throw new FrameTooLargeError(length)
      const next = at + HEADER_BYTES + length
      if (next > bytes.byteLength) {
        this.#neededBytes = HEADER_BYTES + length
        break
      }
      frames.push({
        type: bytes.readUInt8(at + 4),
        channel: bytes.readUInt32BE(at + 6),
        payload: bytes.subarray(at + HEADER_BYTES, next),
      })
      at = next
    }
    const rest = bytes.subarray(at)
    this.#pieces = rest.byteLength === 0 ? [] : [rest]
    this.#heldBytes = rest.byteLength
    return frames
  }
}
