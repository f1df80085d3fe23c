import { isUtf8 } from 'node:buffer'

export interface FilePart {
  readonly bytes: Buffer
  /** Undefined for binary data. */
  readonly text: string | undefined
  /** The position after the last byte. */
  readonly endBytes: number
  /** Undefined if the file ends here. */
  readonly nextOffsetBytes: number | undefined
}

/** Reads a part of a file, and stops after it. */
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
  // An incomplete character belongs to the next part.
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

/** The length of an incomplete UTF-8 character at the end. */
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
