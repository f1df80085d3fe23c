import type { ProcessConnection } from '@dormouse/engine'

/** Input of a process that it may not have taken yet, for the next connection to send again. */
export class ProcessInput {
  #pieces: Uint8Array[] = []
  /** How many of the pieces this connection was given, and the position behind them. */
  #sentPieces = 0
  #sentBytes = 0
  /** The positions of the first piece, and behind the last. */
  #takenBytes = 0
  #bytes = 0

  get isEmpty(): boolean {
    return this.#pieces.length === 0
  }

  add(piece: Uint8Array): void {
    this.#pieces.push(piece)
    this.#bytes += piece.byteLength
  }

  next(): Uint8Array | undefined {
    return this.#pieces[this.#sentPieces]
  }

  /** The connection has the piece that was next. */
  sent({ untakenBytes }: Pick<ProcessConnection, 'untakenBytes'>): void {
    this.#sentBytes += this.next()?.byteLength ?? 0
    this.#sentPieces += 1
    this.forget(untakenBytes)
  }

  /** Forgets what the process has taken: all that was sent but `untakenBytes`. */
  forget(untakenBytes: number): void {
    for (;;) {
      const [first] = this.#pieces
      if (first === undefined || this.#sentPieces === 0) return
      if (this.#takenBytes + first.byteLength > this.#sentBytes - untakenBytes) return
      this.#pieces.shift()
      this.#sentPieces -= 1
      this.#takenBytes += first.byteLength
    }
  }

  /** The next connection continues at this position. False: there is no such position. */
  rewindTo(takenBytes: number): boolean {
    if (takenBytes < this.#takenBytes || takenBytes > this.#bytes) return false
    const rest = Buffer.concat(this.#pieces).subarray(takenBytes - this.#takenBytes)
    this.#pieces = rest.byteLength === 0 ? [] : [rest]
    this.#sentPieces = 0
    this.#sentBytes = takenBytes
    this.#takenBytes = takenBytes
    return true
  }
}
