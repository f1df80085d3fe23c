/**
 * Text of bounded size that keeps its beginning and its end: the beginning says what the output is, the end how it came out.
 * Lengths are counted in UTF-16 units, close enough to bytes for a bound.
 */
export class BoundedText {
  readonly #halfBytes: number
  #head = ''
  /** What the beginning may be long. Nothing is added to it behind a gap. */
  #headBytes: number
  #tail: string[] = []
  #tailBytes = 0
  lostBytes = 0

  constructor(maxBytes: number) {
    this.#halfBytes = maxBytes / 2
    this.#headBytes = this.#halfBytes
  }

  add(text: string): void {
    const room = this.#headBytes - this.#head.length
    if (room >= text.length) {
      this.#head += text
      return
    }
    this.#head += text.slice(0, Math.max(0, room))
    const rest = text.slice(Math.max(0, room))
    this.#tail.push(rest)
    this.#tailBytes += rest.length
    // Whole pieces go first; the one that straddles the bound is cut when the text is asked for.
    while (this.#tailBytes - (this.#tail[0]?.length ?? 0) >= this.#halfBytes) {
      const dropped = this.#tail.shift() ?? ''
      this.#tailBytes -= dropped.length
      this.lostBytes += dropped.length
    }
  }

  /** So much is missing here: what was added before is the beginning. */
  lose(bytes: number): void {
    this.lostBytes += bytes
    this.#headBytes = Math.min(this.#headBytes, this.#head.length)
  }

  text(): string {
    let tail = this.#tail.join('')
    if (tail.length > this.#halfBytes) {
      this.lostBytes += tail.length - this.#halfBytes
      tail = tail.slice(-this.#halfBytes)
      this.#tail = [tail]
      this.#tailBytes = tail.length
    }
    return this.lostBytes === 0
      ? this.#head + tail
      : `${this.#head}\n… ${this.lostBytes} bytes left out …\n${tail}`
  }
}
