/**
 * Collects text and keeps at most `maxBytes` of its UTF-8: the beginning, which shows what the text is, and the end,
 * which shows how it turned out. Never cuts a character in half. `text()` says in the middle how many bytes are
 * missing.
 *
 * `python/dormouse/_bounded_text.py` does the same; `bounded-text.cases.json` holds cases that both pass.
 */
export class BoundedText {
  readonly #maxBytes: number
  readonly #advice: string
  readonly #head: string[] = []
  #headBytes = 0
  /** The head is complete: all later text goes to the tail. */
  #isHeadFull = false
  #tail: string[] = []
  #tailBytes = 0
  #lostBytes = 0

  /** `advice` follows the number of missing bytes: what a reader can do about them. */
  constructor(maxBytes: number, advice?: string) {
    this.#maxBytes = maxBytes
    this.#advice = advice === undefined ? '' : `: ${advice}`
  }

  /** Pre: `text` is well-formed; no surrogate pair is split over two calls. */
  add(text: string): void {
    const size = Buffer.byteLength(text)
    if (!this.#isHeadFull) {
      const room = Math.floor(this.#maxBytes / 2) - this.#headBytes
      if (size <= room) {
        this.#head.push(text)
        this.#headBytes += size
        return
      }
      const bytes = Buffer.from(text)
      const cut = characterStart(bytes, room, -1)
      this.#head.push(bytes.toString('utf8', 0, cut))
      this.#headBytes += cut
      this.#isHeadFull = true
      this.#addToTail(bytes.toString('utf8', cut), size - cut)
    } else this.#addToTail(text, size)
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
    const tail = this.#tail.join('')
    if (this.#lostBytes === 0) return head + tail
    return `${head}\n… ${this.#lostBytes} bytes left out${this.#advice} …\n${tail}`
  }

  #addToTail(text: string, size: number): void {
    this.#tail.push(text)
    this.#tailBytes += size
    // Trimming joins all pieces, so it waits until there is as much to drop as to keep.
    if (this.#tailBytes > 2 * this.#maxBytes) this.#trimTail()
  }

  #trimTail(): void {
    const room = this.#maxBytes - this.#headBytes
    if (this.#tailBytes <= room) return
    const bytes = Buffer.from(this.#tail.join(''))
    const cut = characterStart(bytes, bytes.length - room, +1)
    this.#lostBytes += cut
    this.#tail = [bytes.toString('utf8', cut)]
    this.#tailBytes = bytes.length - cut
  }
}

/** `text` itself when it has at most `maxBytes` of UTF-8, otherwise its beginning and its end. */
export function boundText(text: string, maxBytes: number, advice?: string): string {
  const bounded = new BoundedText(maxBytes, advice)
  bounded.add(text)
  return bounded.text()
}

/** The nearest position at or beyond `position`, in direction `step`, where a character of UTF-8 begins. */
function characterStart(bytes: Uint8Array, position: number, step: -1 | 1): number {
  let at = position
  while (((bytes[at] ?? 0) & 0xc0) === 0x80) at += step
  return at
}
