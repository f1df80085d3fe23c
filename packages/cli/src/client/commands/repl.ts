import { createInterface, type Interface } from 'node:readline'
import { onAbort } from '@dormouse/async'
import { DormouseError, type Sandbox } from 'dormouse'
import type { Call } from '../call.ts'
import { ensureContext } from '../ensure-context.ts'
import { isCompletePython } from '../is-complete-python.ts'
import { ReplHistory } from '../repl-history.ts'
import { showError, signalStatus } from '../show-error.ts'
import { showEvent } from '../show-event.ts'
import { shortName } from './ls.ts'

const PROMPT = '>>> '
const MORE = '... '
const EXIT_WORDS = new Set(['exit', 'exit()', 'quit', 'quit()'])

export async function repl(call: Call, ref: string, { context }: { context: string }): Promise<number> {
  const sandbox = await call.sandbox(ref)
  await ensureContext(sandbox, context, call.signal)
  const isTerminal = call.io.stdin.isTTY && call.io.stdout.isTTY && !call.isJson
  if (isTerminal)
    call.note(
      `Python in ${shortName(sandbox)}, context ${context}. Ctrl-C interrupts, Ctrl-D exits; variables stay.`,
    )
  return new Repl(call, sandbox, context, isTerminal).run()
}

class Repl {
  readonly #call: Call
  readonly #sandbox: Sandbox
  readonly #context: string
  readonly #lines: Interface
  readonly #isTerminal: boolean
  #typed: string[] = []
  #runId: string | undefined
  #isRunning = false
  #exitCode = 0

  constructor(call: Call, sandbox: Sandbox, context: string, isTerminal: boolean) {
    const { stdin, stdout, env } = call.io
    const history = new ReplHistory(env)
    this.#call = call
    this.#sandbox = sandbox
    this.#context = context
    this.#isTerminal = isTerminal
    this.#lines = createInterface({
      input: stdin,
      ...(isTerminal ? { output: stdout, history: history.read(), historySize: 1000 } : {}),
      terminal: isTerminal,
      removeHistoryDuplicates: true,
      tabSize: 4,
    })
    this.#lines.on('history', (lines: string[]) => history.write(lines))
    this.#lines.on('SIGINT', () => this.#onInterrupt())
  }

  /** Reads input to its end. When input is piped in, returns the exit status of the last piece. */
  async run(): Promise<number> {
    const { signal } = this.#call
    using _listener = onAbort(signal, () => {
      this.#interruptRun()
      this.#lines.close()
    })
    try {
      this.#prompt()
      // Lines that are typed while code runs wait here.
      for await (const line of this.#lines) {
        if (this.#typed.length === 0 && EXIT_WORDS.has(line.trim())) break
        await this.#addLine(line)
        this.#prompt()
      }
      if (this.#typed.length > 0) await this.#runCode(this.#typed.join('\n'))
    } finally {
      this.#lines.close()
    }
    if (signal.aborted) return signalStatus(signal)
    if (this.#isTerminal) this.#call.io.stdout.write('\n')
    return this.#isTerminal ? 0 : this.#exitCode
  }

  async #addLine(line: string): Promise<void> {
    this.#typed.push(line)
    const code = this.#typed.join('\n')
    if (code.trim() !== '' && !isCompletePython(code)) return
    this.#typed = []
    if (code.trim() !== '') await this.#runCode(code)
  }

  async #runCode(code: string): Promise<void> {
    this.#isRunning = true
    try {
      if (this.#call.isJson) await this.#runAsJson(code)
      else await this.#runAsText(code)
    } catch (error) {
      if (!(error instanceof DormouseError)) throw error
      this.#exitCode = showError(error, this.#call.io, { isJson: this.#call.isJson })
    } finally {
      this.#isRunning = false
      this.#runId = undefined
    }
  }

  async #runAsJson(code: string): Promise<void> {
    const result = await this.#sandbox.runCode(code, { context: this.#context })
    this.#exitCode = result.exitCode
    this.#call.printJsonLine(result)
  }

  async #runAsText(code: string): Promise<void> {
    let isLineOpen = false
    for await (const event of this.#sandbox.runCodeStream(code, { context: this.#context })) {
      if (event.type === 'start') this.#runId = event.runId
      if (event.type === 'exit') this.#exitCode = event.exitCode
      if (event.type === 'stdout' || event.type === 'stderr') isLineOpen = !event.data.endsWith('\n')
      showEvent(event, this.#call.io)
    }
    // The prompt starts on a new line.
    if (isLineOpen && this.#isTerminal) this.#call.io.stdout.write('\n')
  }

  /** Ctrl-C interrupts the current run, or discards the current input. */
  #onInterrupt(): void {
    if (this.#isRunning) {
      this.#interruptRun()
      return
    }
    this.#typed = []
    this.#call.io.stdout.write('\nKeyboardInterrupt\n')
    // Clears the line.
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#lines.write(null, { ctrl: true, name: 'u' })
    this.#prompt()
  }

  #interruptRun(): void {
    if (this.#runId !== undefined) this.#sandbox.runs.interrupt(this.#runId).catch(() => {})
  }

  #prompt(): void {
    if (!this.#isTerminal) return
    this.#lines.setPrompt(this.#typed.length === 0 ? PROMPT : MORE)
    this.#lines.prompt()
  }
}
