import { isUtf8 } from 'node:buffer'

export interface FilePart {
  readonly bytes: Buffer
  /** Of bytes that are text. */
  readonly text: string | undefined
  /** How far was read. */
  readonly endBytes: number
  /** Absent when the file ends here. */
  readonly nextOffsetBytes: number | undefined
}

/** Reads no more of a file than is asked for, and one byte to know whether there is more. */
export async function readPart(
  stream: ReadableStream<Uint8Array>,
  { offsetBytes, maxBytes }: { offsetBytes: number; maxBytes: number },
): Promise<FilePart> {
  const pieces: Uint8Array[] = []
  let position = 0
  const end = offsetBytes + maxBytes
  for await (const piece of stream) {
    const from = Math.max(0, offsetBytes - position)
    const to = Math.min(piece.byteLength, end - position)
    if (to > from) pieces.push(piece.subarray(from, to))
    position += piece.byteLength
    if (position > end) break
  }
  const hasMore = position > end
  const all = Buffer.concat(pieces)
  // A character that is cut in the middle belongs to the next part.
  const whole = hasMore ? all.subarray(0, all.length - cutBytes(all)) : all
  const isText = isUtf8(whole) && !whole.includes(0) && (whole.length > 0 || all.length === 0)
  const bytes = isText ? whole : all
  const endBytes = Math.min(position, offsetBytes + bytes.length)
  return {
    bytes,
    text: isText ? bytes.toString('utf8') : undefined,
    endBytes,
    nextOffsetBytes: hasMore ? offsetBytes + bytes.length : undefined,
  }
}

/** Bytes at the end that begin a character of UTF-8 and do not finish it. */
function cutBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if (byte < 0x80) return 0
    if (byte >= 0xc0) {
      const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2
      return needed > back ? back : 0
    }
  }
  return 0
}
