export interface LogLine {
  readonly seq: number
  readonly text: string
}

/** What a page shows, and what of one line. */
const LINES_MAX = 1_000
const LINE_MAX_CHARACTERS = 2_000

/** The newest lines of the server's log, in memory. Readers that lag behind miss lines. */
export class LogLines {
  readonly #lines: LogLine[] = []
  #next = 0
  #waiting: (() => void)[] = []

  add(text: string): void {
    this.#lines.push({ seq: this.#next, text: text.trimEnd().slice(0, LINE_MAX_CHARACTERS) })
    this.#next += 1
    if (this.#lines.length > LINES_MAX) this.#lines.shift()
    for (const notify of this.#waiting.splice(0)) notify()
  }

  /** Ends at the present end, or with `follow` when `signal` aborts. */
  async *read(options: { after: number; follow: boolean; signal: AbortSignal }): AsyncGenerator<LogLine> {
    const { follow, signal } = options
    let seen = options.after
    signal.addEventListener('abort', () => this.#waiting.splice(0).forEach((notify) => void notify()), {
      once: true,
    })
    for (;;) {
      for (const line of this.#lines.filter(({ seq }) => seq > seen)) {
        seen = line.seq
        yield line
      }
      if (!follow || signal.aborted) return
      if (seen < this.#next - 1) continue
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }
}
