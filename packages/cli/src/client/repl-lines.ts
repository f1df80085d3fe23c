import { type CompleterResult, createInterface, type Interface } from 'node:readline'
import type { CommandIo } from './command-io.ts'
import { MutableOutput } from './mutable-output.ts'
import { ReplHistory } from './repl-history.ts'

export interface ReplLinesOptions {
  readonly isTerminal: boolean
  readonly onInterrupt: () => void
  /** May fail, for example while another program runs something in the context: nothing is completed then. */
  readonly complete: (line: string) => Promise<CompleterResult>
}

export interface AskOptions {
  /** Text of the same line that is already on the screen. */
  readonly after?: string
  readonly hidden: boolean
  /** Aborting discards what was typed; the question has no answer then. */
  readonly signal: AbortSignal
}

/** Input is read this many lines ahead, for example when a file is piped in. */
const LINES_AHEAD = 1024
const HISTORY_LINES = 1000

/** The lines that are typed or piped into the REPL. Lines that nothing waits for are kept in order. */
export class ReplLines {
  readonly #lines: Interface
  readonly #output: MutableOutput
  readonly #stdout: CommandIo['stdout']
  readonly #isTerminal: boolean
  readonly #waiting: string[] = []
  /** The code that was entered, the newest first. Answers to `input()` are not part of it. */
  readonly #history: string[]
  readonly #historyFile: ReplHistory
  /** The history that the arrow keys go through. */
  #arrowHistory: string[]
  #taker: ((line: string | undefined) => void) | undefined
  #hasEnded = false

  constructor({ stdin, stdout, env }: CommandIo, options: ReplLinesOptions) {
    const { isTerminal, onInterrupt, complete } = options
    this.#historyFile = new ReplHistory(env)
    this.#stdout = stdout
    this.#isTerminal = isTerminal
    this.#output = new MutableOutput(stdout)
    this.#history = isTerminal ? this.#historyFile.read() : []
    this.#arrowHistory = [...this.#history]
    this.#lines = createInterface({
      input: stdin,
      ...(isTerminal
        ? { output: this.#output, history: this.#arrowHistory, historySize: HISTORY_LINES }
        : {}),
      terminal: isTerminal,
      removeHistoryDuplicates: true,
      tabSize: 4,
      completer: (line: string, done: (error: null, result: CompleterResult) => void) => {
        complete(line).then(
          (result) => done(null, result),
          () => done(null, [[], line]),
        )
      },
    })
    this.#lines.on('line', (line) => this.#take(line))
    this.#lines.on('close', () => this.#end())
    this.#lines.on('SIGINT', onInterrupt)
    this.#lines.on('history', (lines: string[]) => {
      // Node adds every line and lets the listener change that. A line that is typed ahead may be a password.
      this.#arrowHistory = lines
      this.#showHistory()
    })
  }

  onError(listener: () => void): void {
    this.#lines.on('error', listener)
  }

  /** The next line of code. Undefined: the input has ended. */
  async next(prompt: string): Promise<string | undefined> {
    this.prompt(prompt)
    const line = await this.#nextLine()
    if (this.#isTerminal && line !== undefined && line.trim() !== '') this.#remember(line)
    return line
  }

  /** Reads the answer to `input()`. Undefined: the input has ended, or the question was withdrawn. */
  async ask(prompt: string, { after = '', hidden, signal }: AskOptions): Promise<string | undefined> {
    const shown = `${after}${prompt}`
    const lastLine = shown.lastIndexOf('\n') + 1
    this.#stdout.write(shown.slice(after.length, Math.max(after.length, lastLine)))
    const withdraw = () => this.#withdraw()
    signal.addEventListener('abort', withdraw)
    this.prompt(shown.slice(lastLine))
    this.#output.isMuted = hidden
    let line: string | undefined
    try {
      line = signal.aborted ? undefined : await this.#nextLine()
      return line
    } finally {
      signal.removeEventListener('abort', withdraw)
      this.#output.isMuted = false
      // Enter has ended the line unless it was hidden.
      if (hidden || line === undefined) this.#stdout.write('\n')
    }
  }

  /** Removes what is typed in the current line. */
  discardLine(): void {
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#lines.write(null, { ctrl: true, name: 'u' })
  }

  /** Shows a prompt in a terminal. */
  prompt(text: string): void {
    if (!this.#isTerminal || this.#hasEnded) return
    this.#lines.setPrompt(text)
    this.#lines.prompt()
  }

  close(): void {
    this.#lines.close()
  }

  #remember(line: string): void {
    const others = this.#history.filter((other) => other !== line)
    this.#history.splice(0, this.#history.length, line, ...others.slice(0, HISTORY_LINES - 1))
    this.#historyFile.write(this.#history)
    this.#showHistory()
  }

  #showHistory(): void {
    this.#arrowHistory.splice(0, this.#arrowHistory.length, ...this.#history)
  }

  #nextLine(): Promise<string | undefined> {
    const line = this.#waiting.shift()
    if (this.#waiting.length < LINES_AHEAD && !this.#hasEnded) this.#lines.resume()
    if (line !== undefined || this.#hasEnded) return Promise.resolve(line)
    return new Promise((resolve) => {
      this.#taker = resolve
    })
  }

  #take(line: string): void {
    const taker = this.#taker
    this.#taker = undefined
    if (taker !== undefined) {
      taker(line)
      return
    }
    this.#waiting.push(line)
    if (this.#waiting.length >= LINES_AHEAD) this.#lines.pause()
  }

  #withdraw(): void {
    this.discardLine()
    this.#taker?.(undefined)
    this.#taker = undefined
  }

  #end(): void {
    this.#hasEnded = true
    this.#taker?.(undefined)
    this.#taker = undefined
  }
}
