const LINES = 60
const LINE_MAX_CHARACTERS = 500
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNPRINTABLE = /\u001b\[[0-9;?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

/**
 * The end of a build's output. The output comes from a sandbox, so it is bounded and stripped of terminal control
 * sequences.
 */
export class BuildLog {
  readonly #lines: string[] = []
  #rest = ''

  /** Adds a line of the builder. */
  say(line: string): void {
    this.#flush()
    this.#push(line)
  }

  /** Adds output; chunks may end in the middle of a line. */
  write(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()?.slice(0, LINE_MAX_CHARACTERS * 2) ?? ''
    for (const line of lines.slice(-LINES)) this.#push(line)
  }

  get lastLine(): string | undefined {
    return this.tail?.split('\n').findLast((line) => line.trim() !== '')
  }

  get tail(): string | undefined {
    const lines = this.#rest === '' ? this.#lines : [...this.#lines, plain(this.#rest)]
    return lines.length === 0 ? undefined : lines.join('\n')
  }

  #flush(): void {
    if (this.#rest !== '') this.#push(this.#rest)
    this.#rest = ''
  }

  #push(line: string): void {
    this.#lines.push(plain(line))
    if (this.#lines.length > LINES) this.#lines.shift()
  }
}

/** Keeps what was visible last when carriage returns overwrote a line. */
function plain(line: string): string {
  const seen = line.replace(/\r+$/, '').split('\r').at(-1) ?? ''
  return seen.replaceAll(UNPRINTABLE, '').slice(0, LINE_MAX_CHARACTERS)
}
