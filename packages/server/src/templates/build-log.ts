import { onAbort } from '@dormouse/async'

const LINES = 60
/** Lines that a reader can still get while the build runs. */
const FOLLOWED_LINES = 5_000
const LINE_MAX_CHARACTERS = 500
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNPRINTABLE = /\u001b\[[0-9;?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

export interface LogLine {
  readonly seq: number
  readonly at: number
  readonly text: string
}

/**
 * The end of a build's output. The output comes from a sandbox, so it is bounded and stripped of terminal control
 * sequences.
 */
export class BuildLog {
  readonly #lines: LogLine[] = []
  #seq = 0
  #step: string | undefined
  #rest = ''
  #isEnded = false
  #wake: (() => void)[] = []

  /** Adds a line of the builder. One that is not indented says which step begins. */
  say(line: string): void {
    this.#flush()
    if (!line.startsWith(' ')) this.#step = plain(line.replace(/^==> /, ''))
    this.#push(line)
  }

  /** Adds output; chunks may end in the middle of a line. */
  write(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()?.slice(0, LINE_MAX_CHARACTERS * 2) ?? ''
    for (const line of lines.slice(-FOLLOWED_LINES)) this.#push(line)
  }

  /** What the build does now. */
  get step(): string | undefined {
    return this.#step
  }

  get lastLine(): string | undefined {
    return this.tail?.split('\n').findLast((line) => line.trim() !== '')
  }

  get tail(): string | undefined {
    const finished = this.#lines.slice(-LINES).map(({ text }) => text)
    const lines = this.#rest === '' ? finished : [...finished, plain(this.#rest)].slice(-LINES)
    return lines.length === 0 ? undefined : lines.join('\n')
  }

  /** The build has ended: readers do not wait for more. */
  end(): void {
    this.#flush()
    this.#isEnded = true
    this.#notify()
  }

  /** Yields lines after `after`, now and as they come, until the build ends. */
  async *follow(after: number, signal: AbortSignal): AsyncGenerator<LogLine> {
    let last = after
    for (;;) {
      const ready = this.#lines.filter(({ seq }) => seq > last)
      for (const line of ready) {
        yield line
        last = line.seq
      }
      if (signal.aborted || (this.#isEnded && ready.length === 0)) return
      if (ready.length === 0) await this.#next(signal)
    }
  }

  async #next(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = withResolvers()
    this.#wake.push(resolve)
    using _listener = onAbort(signal, resolve)
    await promise
  }

  #notify(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }

  #flush(): void {
    if (this.#rest !== '') this.#push(this.#rest)
    this.#rest = ''
  }

  #push(line: string): void {
    const next = { seq: this.#seq, at: Date.now(), text: plain(line) }
    this.#seq += 1
    this.#lines.push(next)
    if (this.#lines.length > FOLLOWED_LINES * 2) this.#lines.splice(0, FOLLOWED_LINES)
    this.#notify()
  }
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

/** Keeps what was visible last when carriage returns overwrote a line. */
function plain(line: string): string {
  const seen = line.replace(/\r+$/, '').split('\r').at(-1) ?? ''
  return seen.replaceAll(UNPRINTABLE, '').slice(0, LINE_MAX_CHARACTERS)
}
