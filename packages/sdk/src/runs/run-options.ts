import type { RunBody, RunResultAnswer } from '../contract/index.ts'
import type { Result } from './result.ts'

/** A result by its mime types: text as it is, binary as base64, JSON as JSON. */
export type ResultData = RunResultAnswer['results'][number]

export interface RunStreamOptions {
  /**
   * Default: that of the context. `javascript` and `typescript` share a context of their own. `bash` runs in any context
   * and keeps nothing, unless the context is a `bash`.
   */
  readonly language?: RunBody['language']
  /**
   * The REPL to run in, which is created if it does not exist. Default: `default`; for JavaScript and TypeScript
   * `javascript`.
   */
  readonly context?: string | undefined
  /** Interrupts the run after this time. */
  readonly timeoutMs?: number | undefined
  /** Aborting interrupts the run (the REPL continues), and the call throws `cancelled`. */
  readonly signal?: AbortSignal | undefined
  /** Default: a new key. With the key of an earlier run, the call returns that run and runs nothing. */
  readonly idempotencyKey?: string | undefined
  /** Whether you answer `input` events, with `sandbox.runs.answer()`. Without it, `input()` raises EOFError. */
  readonly input?: boolean | undefined
}

/** What `input()` or `getpass()` of the code asks for. `hidden`: do not show what is typed. */
export interface InputQuestion {
  readonly prompt: string
  readonly hidden: boolean
}

export interface RunOptions extends Omit<RunStreamOptions, 'input'> {
  /** Returns what `input()` returns in the code; undefined ends the input, and the code gets an EOFError. */
  readonly onInput?:
    | ((question: InputQuestion) => string | undefined | Promise<string | undefined>)
    | undefined
  readonly onStdout?: ((text: string) => void) | undefined
  readonly onStderr?: ((text: string) => void) | undefined
  readonly onResult?: ((result: Result) => void) | undefined
}
