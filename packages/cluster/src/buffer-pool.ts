/**
 * Buffers of one size that are used again. The kernel fills fresh memory page by page, which takes as long as encrypting
 * it. Holds as many as are in use at once, until the pool itself is forgotten.
 */
export class BufferPool {
  readonly #bytes: number
  readonly #free: ArrayBuffer[] = []

  constructor(bytes: number) {
    this.#bytes = bytes
  }

  /** The content is undefined. */
  take(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#free.pop() ?? new ArrayBuffer(this.#bytes))
  }

  /** A buffer of this pool, or a part of one, that nothing uses any more. */
  give({ buffer }: Uint8Array<ArrayBuffer>): void {
    if (buffer.byteLength === this.#bytes) this.#free.push(buffer)
  }
}
