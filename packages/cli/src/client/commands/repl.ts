import type { CompleterResult } from 'node:readline'
import { onAbort } from '@dormouse/async'
import { DormouseError, type RunEvent, type Sandbox } from 'dormouse'
import type { Call } from '../call.ts'
import { ensureContext } from '../ensure-context.ts'
import { isCompletePython } from '../is-complete-python.ts'
import { isCompleteScript } from '../is-complete-script.ts'
import { type Language, languageOfContext, promptContext } from '../language.ts'
import { OpenLine } from '../open-line.ts'
import { ReplLines } from '../repl-lines.ts'
import { showError, signalStatus } from '../show-error.ts'
import { showEvent } from '../show-event.ts'
import { HANG_UP_STATUS, isTerminalLost } from '../terminal-loss.ts'
import { shortName } from './ls.ts'

const PROMPT = '>>> '
const MORE = '... '
const INDENT = '    '
const EXIT_WORDS = new Set(['exit', 'exit()', 'quit', 'quit()'])
// biome-ignore lint/suspicious/noControlCharactersInRegex: a sandbox must not send them to the terminal this way
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/

interface ReplFlags {
  readonly context?: string
  readonly python?: string
  readonly language?: Language
}

export async function repl(call: Call, ref: string, flags: ReplFlags): Promise<number> {
  const sandbox = await call.sandbox(ref)
  const { signal } = call
  const context = flags.context ?? promptContext(flags.language)
  await ensureContext(sandbox, context, { language: flags.language, python: flags.python, signal })
  const language = await languageOfContext(sandbox, context, signal)
  const isTerminal = call.io.stdin.isTTY && call.io.stdout.isTTY && !call.isJson
  if (isTerminal)
    call.note(
      `${TITLES[language]} in ${shortName(sandbox)}, context ${context}. ${completes(language) ? 'Tab completes, ' : ''}Ctrl-C interrupts, Ctrl-D exits; variables stay.`,
    )
  return new Repl(call, sandbox, { name: context, language, isTerminal }).run()
}

const TITLES: Readonly<Record<Language, string>> = {
  python: 'Python',
  bash: 'bash',
  javascript: 'JavaScript',
  typescript: 'TypeScript',
  r: 'R',
}

function completes(language: Language): boolean {
  return language !== 'bash' && language !== 'r'
}

interface Prompt {
  /** The context. */
  readonly name: string
  readonly language: Language
  readonly isTerminal: boolean
}

class Repl {
  readonly #call: Call
  readonly #sandbox: Sandbox
  readonly #context: string
  readonly #language: Language
  readonly #lines: ReplLines
  readonly #isTerminal: boolean
  readonly #openLine = new OpenLine()
  #typed: string[] = []
  #runId: string | undefined
  #question: AbortController | undefined
  /** Cancels the current run before it has begun. */
  #cancel = new AbortController()
  #isRunning = false
  #isStopped = false
  #exitCode = 0

  constructor(call: Call, sandbox: Sandbox, { name, language, isTerminal }: Prompt) {
    this.#call = call
    this.#sandbox = sandbox
    this.#context = name
    this.#language = language
    this.#isTerminal = isTerminal
    this.#lines = new ReplLines(call.io, {
      isTerminal,
      onInterrupt: () => this.#onInterrupt(),
      complete: (line) => this.#complete(line),
    })
    if (call.io.stdin.isTTY) this.#stopWithTerminal()
  }

  #stopWithTerminal(): void {
    const { stdin } = this.#call.io
    // Before the listener of readline, which takes the half-typed line of a lost terminal for a complete one.
    stdin.prependListener('end', () => {
      if (isTerminalLost(stdin)) this.#stop()
    })
    // Reading a lost terminal, or resetting its modes, can fail.
    stdin.prependListener('error', () => this.#stop())
    this.#lines.onError(() => this.#stop())
  }

  /** Reads input to its end. When input is piped in, returns the exit status of the last piece. */
  async run(): Promise<number> {
    const { signal } = this.#call
    using _listener = onAbort(signal, () => this.#stop())
    try {
      for (;;) {
        const line = await this.#lines.next(this.#typed.length === 0 ? PROMPT : MORE)
        if (line === undefined || this.#isStopped) break
        if (this.#typed.length === 0 && EXIT_WORDS.has(line.trim())) break
        await this.#addLine(line)
      }
      // In a terminal, only Enter runs code.
      if (this.#typed.length > 0 && !this.#isTerminal && !this.#isStopped)
        await this.#runCode(this.#typed.join('\n'))
    } catch (error) {
      if (!this.#isStopped) throw error
    } finally {
      this.#lines.close()
    }
    if (signal.aborted) return signalStatus(signal)
    if (this.#isStopped) return HANG_UP_STATUS
    if (this.#isTerminal) this.#call.io.stdout.write('\n')
    return this.#isTerminal ? 0 : this.#exitCode
  }

  async #addLine(line: string): Promise<void> {
    this.#typed.push(line)
    const code = this.#typed.join('\n')
    if (code.trim() !== '' && !this.#isComplete(code)) return
    this.#typed = []
    if (code.trim() !== '') await this.#runCode(code)
  }

  #isComplete(code: string): boolean {
    return this.#language === 'python' ? isCompletePython(code) : isCompleteScript(code, this.#language)
  }

  /** For Tab: names that the context knows. At the beginning of a line, the indentation of a block. */
  async #complete(line: string): Promise<CompleterResult> {
    if (this.#isRunning || !completes(this.#language)) return [[], line]
    if (line.trim() === '') return [[INDENT], '']
    // Every name would fit.
    if (/\s$/.test(line) && !/\b(from|import)\s+$/.test(line)) return [[], line]
    const code = [...this.#typed, line].join('\n')
    const { signal } = this.#call
    const found = await this.#sandbox.contexts.complete(this.#context, code, { signal })
    return [found.matches.filter((match) => !CONTROL_CHARACTER.test(match)), found.replaces]
  }

  async #runCode(code: string): Promise<void> {
    this.#isRunning = true
    this.#cancel = new AbortController()
    try {
      if (this.#call.isJson) await this.#runAsJson(code)
      else await this.#runAsText(code)
    } catch (error) {
      if (!(error instanceof DormouseError)) throw error
      if (this.#cancel.signal.aborted) this.#call.note('KeyboardInterrupt')
      else this.#exitCode = showError(error, this.#call.io, { isJson: this.#call.isJson })
    } finally {
      this.#question?.abort()
      this.#isRunning = false
      this.#runId = undefined
    }
  }

  async #runAsJson(code: string): Promise<void> {
    const { signal } = this.#cancel
    const result = await this.#sandbox.runCode(code, { context: this.#context, signal })
    this.#exitCode = result.exitCode
    this.#call.printJsonLine(result)
  }

  async #runAsText(code: string): Promise<void> {
    const options = {
      context: this.#context,
      input: this.#isTerminal && completes(this.#language),
      signal: this.#cancel.signal,
    }
    this.#openLine.end()
    for await (const event of this.#sandbox.runCodeStream(code, options)) {
      // The code continues, so it no longer waits for an answer.
      this.#question?.abort()
      if (event.type === 'start') this.#runId = event.runId
      if (event.type === 'exit') this.#exitCode = event.exitCode
      if (event.type === 'stdout' || event.type === 'stderr') this.#openLine.add(event.data)
      if (event.type === 'result') this.#openLine.end()
      if (event.type === 'input') this.#answer(event)
      else showEvent(event, this.#call.io)
    }
    // The prompt starts on a new line.
    if (this.#openLine.text !== '' && this.#isTerminal) this.#call.io.stdout.write('\n')
  }

  /** Reads the answer from the terminal while further events are awaited: the run may be interrupted meanwhile. */
  #answer({ seq, prompt, hidden = false }: RunEvent & { type: 'input' }): void {
    const question = new AbortController()
    this.#question = question
    const runId = this.#runId ?? ''
    const { signal } = question
    const send = async () => {
      const text = await this.#lines.ask(prompt, { after: this.#openLine.text, hidden, signal })
      this.#openLine.end()
      if (signal.aborted || this.#isStopped) return
      await this.#sandbox.runs.answer(runId, { seq, text })
    }
    send().catch((error: unknown) => {
      // The run has ended, or does not wait any more.
      if (error instanceof DormouseError && error.code === 'conflict') return
      this.#exitCode = showError(error, this.#call.io, { isJson: false })
      this.#interruptRun()
    })
  }

  /** Ctrl-C interrupts the current run, or discards the current input. */
  #onInterrupt(): void {
    if (this.#isRunning) {
      // What is typed from now on is code, not the answer.
      this.#question?.abort()
      this.#interruptRun()
      return
    }
    this.#typed = []
    this.#call.io.stdout.write('\nKeyboardInterrupt\n')
    this.#lines.discardLine()
    this.#lines.prompt(PROMPT)
  }

  /** After a signal or the loss of the terminal, no input is run, not even complete lines that wait. */
  #stop(): void {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#question?.abort()
    // Interrupts the run, and ends the wait for it: it may be in the queue behind others.
    this.#cancel.abort()
    this.#lines.close()
  }

  /** The rest of its output, such as the traceback, is still shown. A run that has not begun has none. */
  #interruptRun(): void {
    if (this.#runId === undefined) this.#cancel.abort()
    // The run may have ended by itself.
    else this.#sandbox.runs.interrupt(this.#runId).catch(() => {})
  }
}
