import type { Frame } from './frames.ts'

/** Shorter payloads share a buffer: as separate objects they would take a hundred times their size. */
const SMALL_BYTES = 1024
const SHARED_BYTES = 4096
const HEAD_BYTES = 3

type Waiting = Pick<Frame, 'type' | 'payload'>

/** Small frames in one buffer, each as type, length in two bytes, payload. */
interface Pack {
  readonly bytes: Buffer
  from: number
  to: number
}

/** Frames that wait for a reader, stored as bytes: many small frames take little more memory than their payloads. */
export class FrameQueue {
  #entries: (Waiting | Pack)[] = []

  push(type: number, payload: Buffer): void {
    // A payload is a view of a read buffer. Copying keeps a waiting frame from holding the whole buffer.
    if (payload.byteLength > SMALL_BYTES) this.#entries.push({ type, payload: Buffer.from(payload) })
    else this.#pack(type, payload)
  }

  shift(): Waiting | undefined {
    const [first] = this.#entries
    if (first === undefined) return undefined
    if (!('to' in first)) {
      this.#entries.shift()
      return first
    }
    const { bytes, from } = first
    const end = from + HEAD_BYTES + bytes.readUInt16BE(from + 1)
    first.from = end
    if (end === first.to) this.#entries.shift()
    return { type: bytes.readUInt8(from), payload: bytes.subarray(from + HEAD_BYTES, end) }
  }

  clear(): void {
    this.#entries = []
  }

  #pack(type: number, payload: Buffer): void {
    const last = this.#entries.at(-1)
    const needed = HEAD_BYTES + payload.byteLength
    const hasRoom = last !== undefined && 'to' in last && last.to + needed <= last.bytes.byteLength
    const pack = hasRoom ? last : { bytes: Buffer.allocUnsafe(this.#packBytes(needed)), from: 0, to: 0 }
    if (!hasRoom) this.#entries.push(pack)
    pack.bytes.writeUInt8(type, pack.to)
    pack.bytes.writeUInt16BE(payload.byteLength, pack.to + 1)
    payload.copy(pack.bytes, pack.to + HEAD_BYTES)
    pack.to += needed
  }

  /** A frame that waits alone gets a buffer of its own size: a fast reader takes it before the next comes. */
  #packBytes(needed: number): number {
    return this.#entries.length === 0 ? needed : SHARED_BYTES
  }
}
