const LINES = 60
const LINE_MAX_CHARACTERS = 500
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNPRINTABLE = /\u001b\[[0-9;?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

/** The end of what a build says. Output comes from inside: it is bounded, and cannot move the cursor of a terminal that shows it. */
export class BuildLog {
  readonly #lines: string[] = []
  #rest = ''

  /** A line of our own. */
  say(line: string): void {
    this.#flush()
    this.#push(line)
  }

  /** Output as it comes, with lines cut anywhere. */
  write(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()?.slice(0, LINE_MAX_CHARACTERS * 2) ?? ''
    for (const line of lines.slice(-LINES)) this.#push(line)
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

/** Of a line that was written over with carriage returns, what was seen last. */
function plain(line: string): string {
  const seen = line.replace(/\r+$/, '').split('\r').at(-1) ?? ''
  return seen.replaceAll(UNPRINTABLE, '').slice(0, LINE_MAX_CHARACTERS)
}
