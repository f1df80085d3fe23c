import type { WriteStream } from 'node:tty'

/** What is over sooner is not worth a line. */
const SHOWN_AFTER_MS = 400
const EVERY_MS = 100

/** One line that says what goes on and for how long, on a terminal only. It is gone when the work is over. */
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
    // A line that wraps could not be taken back.
    this.#output.write(`\r\x1b[K${text.slice(0, (this.#output.columns || 80) - 1)}`)
    this.#isShown = true
  }
}
