/** See native/LINK.md. native/src/link.h has the same numbers. */
export const FrameType = {
  hello: 1,
  open: 2,
  opened: 3,
  refused: 4,
  data: 5,
  end: 6,
  reset: 7,
  credit: 8,
  control: 9,
  agentEnded: 10,
} as const

export const FRAME_MAX_BYTES = 32_768
export const WINDOW_BYTES = 256 * 1024
export const STREAMS_MAX = 256
const HEADER_BYTES = 8
const RESET = 0x7e
const ESCAPE = 0x7d
const ESCAPE_XOR = 0x20

export interface LinkFrame {
  readonly type: number
  readonly stream: number
  readonly payload: Buffer
}

/** The byte that begins a session. */
export const RESET_BYTE = Buffer.from([RESET])

export function encodeFrame(type: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const frame = Buffer.alloc(HEADER_BYTES + payload.length)
  frame[0] = type
  frame.writeUInt16BE(stream, 2)
  frame.writeUInt32BE(payload.length, 4)
  frame.set(payload, HEADER_BYTES)
  return escapeBytes(frame)
}

function escapeBytes(bytes: Buffer): Buffer {
  let special = 0
  for (const byte of bytes) if (byte === RESET || byte === ESCAPE) special += 1
  if (special === 0) return bytes
  const escaped = Buffer.allocUnsafe(bytes.length + special)
  let at = 0
  for (const byte of bytes) {
    if (byte === RESET || byte === ESCAPE) {
      escaped[at++] = ESCAPE
      escaped[at++] = byte ^ ESCAPE_XOR
    } else escaped[at++] = byte
  }
  return escaped
}

/** Reads what the guest sends. The guest may be hostile: a frame that is too long throws. */
export class LinkDecoder {
  readonly #frame = Buffer.allocUnsafe(HEADER_BYTES + FRAME_MAX_BYTES)
  #used = 0
  #isEscaped = false
  /** Bytes before the first reset belong to the session of an earlier server. */
  #isLost = true

  push(chunk: Buffer): LinkFrame[] {
    const frames: LinkFrame[] = []
    for (const byte of chunk) {
      if (byte === RESET) this.#begin()
      else if (!this.#isLost) this.#take(byte, frames)
    }
    return frames
  }

  #begin(): void {
    this.#used = 0
    this.#isEscaped = false
    this.#isLost = false
  }

  #take(byte: number, frames: LinkFrame[]): void {
    if (byte === ESCAPE && !this.#isEscaped) {
      this.#isEscaped = true
      return
    }
    this.#frame[this.#used++] = this.#isEscaped ? byte ^ ESCAPE_XOR : byte
    this.#isEscaped = false
    const frame = this.#complete()
    if (frame !== undefined) frames.push(frame)
  }

  #complete(): LinkFrame | undefined {
    if (this.#used < HEADER_BYTES) return undefined
    const length = this.#frame.readUInt32BE(4)
    if (length > FRAME_MAX_BYTES) throw new Error(`the guest sent a frame of ${length} bytes`)
    if (this.#used < HEADER_BYTES + length) return undefined
    this.#used = 0
    const payload = Buffer.from(this.#frame.subarray(HEADER_BYTES, HEADER_BYTES + length))
    return { type: this.#frame[0] ?? 0, stream: this.#frame.readUInt16BE(2), payload }
  }
}
