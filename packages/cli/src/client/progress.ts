import type { WriteStream } from 'node:tty'

/** Shorter work shows no progress. */
const SHOWN_AFTER_MS = 400
const EVERY_MS = 100

/** On a terminal, one line with the current work and its duration. Disposing removes the line. */
export class Progress implements Disposable {
  readonly #output: WriteStream | undefined
  readonly #began = performance.now()
  readonly #timer: NodeJS.Timeout | undefined
  #doing: string
  #isShown = false

  constructor(output: WriteStream | undefined, doing: string) {
    this.#doing = doing
    this.#output = output?.isTTY === true ? output : undefined
    if (this.#output !== undefined) this.#timer = setInterval(() => this.#show(), EVERY_MS)
  }

  update(doing: string): void {
    this.#doing = doing
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    if (this.#isShown) this.#output?.write('\r\x1b[K')
  }

  #show(): void {
    const elapsedMs = performance.now() - this.#began
    if (elapsedMs < SHOWN_AFTER_MS || this.#output === undefined) return
    const text = `${this.#doing} … ${(elapsedMs / 1000).toFixed(1)} s`
    // A line that wraps could not be removed.
    this.#output.write(`\r\x1b[K${text.slice(0, (this.#output.columns || 80) - 1)}`)
    this.#isShown = true
  }
}
