/**
 * Collects text and keeps at most `maxBytes` of its UTF-8: the beginning and the end. Never cuts a character in half.
 * The same as `BoundedText` of packages/contracts, for browsers too; both pass `bounded-text.cases.json`.
 */
export class BoundedText {
  readonly #encoder = new TextEncoder()
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #maxBytes: number
  readonly #head: string[] = []
  #headBytes = 0
  /** All later text goes to the tail. */
  #isHeadFull = false
  #tail: Uint8Array[] = []
  #tailBytes = 0
  #lostBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Pre: `text` is well-formed; no surrogate pair is split over two calls. */
  add(text: string): void {
    const bytes = this.#encoder.encode(text)
    const cut = this.#isHeadFull ? 0 : this.#addToHead(bytes)
    if (cut < bytes.length) this.#addToTail(bytes.subarray(cut))
  }

  /** `bytes` of the source are missing here. Text added before is the beginning, text added later the end. */
  lose(bytes: number): void {
    this.#lostBytes += bytes
    this.#isHeadFull = true
  }

  get lostBytes(): number {
    this.#trimTail()
    return this.#lostBytes
  }

  text(): string {
    this.#trimTail()
    const head = this.#head.join('')
    const tail = this.#decoder.decode(joined(this.#tail, this.#tailBytes))
    return this.#lostBytes === 0 ? head + tail : `${head}\n… ${this.#lostBytes} bytes left out …\n${tail}`
  }

  /** Returns how many bytes fit. */
  #addToHead(bytes: Uint8Array): number {
    const room = Math.floor(this.#maxBytes / 2) - this.#headBytes
    this.#isHeadFull = bytes.length > room
    const cut = this.#isHeadFull ? characterStart(bytes, room, -1) : bytes.length
    this.#head.push(this.#decoder.decode(bytes.subarray(0, cut)))
    this.#headBytes += cut
    return cut
  }

  #addToTail(bytes: Uint8Array): void {
    this.#tail.push(bytes)
    this.#tailBytes += bytes.length
    // Trimming joins all pieces, so it waits until there is as much to drop as to keep.
    if (this.#tailBytes > 2 * this.#maxBytes) this.#trimTail()
  }

  #trimTail(): void {
    const room = this.#maxBytes - this.#headBytes
    if (this.#tailBytes <= room) return
    const bytes = joined(this.#tail, this.#tailBytes)
    const cut = characterStart(bytes, bytes.length - room, +1)
    this.#lostBytes += cut
    this.#tail = [bytes.slice(cut)]
    this.#tailBytes = bytes.length - cut
  }
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  const all = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

/** The nearest position at or beyond `position`, in direction `step`, where a character of UTF-8 begins. */
function characterStart(bytes: Uint8Array, position: number, step: -1 | 1): number {
  let at = position
  while (((bytes[at] ?? 0) & 0xc0) === 0x80) at += step
  return at
}
