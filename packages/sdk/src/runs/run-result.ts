import type { RunResultAnswer } from '../contract/index.ts'
import { RunFailedError, RunTimeoutError } from '../error.ts'
import { Result } from './result.ts'

/** The outcome of a run. An exception in the code is in `error`; `check()` throws it. */
export class RunResult implements RunResultAnswer {
  runId = ''
  stdout = ''
  stderr = ''
  exitCode = -1
  results: Result[] = []
  durationMs = 0
  declare error?: { name: string; message: string; traceback: string } | undefined
  declare timedOut?: boolean | undefined
  declare interrupted?: boolean | undefined
  /** Why Linux killed a process of this run: the limit, the peak and what to do. */
  declare outOfMemory?: string | undefined
  /** Why the kernel was replaced before or during this run. */
  declare contextRestarted?: string | undefined
  declare truncated?: { stdoutBytes: number; stderrBytes: number; resultBytes: number } | undefined
  /** The value of the last expression as text, as a notebook shows it. */
  declare text?: string

  get ok(): boolean {
    return this.exitCode === 0 && this.error === undefined
  }

  /** The value of the last expression. */
  get result(): Result | undefined {
    return this.results.findLast(({ isMain }) => isMain)
  }

  /** Returns the run. Throws `RunFailedError` if it failed, `RunTimeoutError` if its `timeoutMs` passed. */
  check(): this {
    if (this.ok) return this
    const { error, timedOut = false } = this
    const tail = this.stderr === '' ? '' : `: ${this.stderr.slice(-STDERR_CHARACTERS)}`
    const reason =
      error === undefined
        ? (this.outOfMemory ?? `exit code ${this.exitCode}${tail}`)
        : `${error.name}: ${error.message}`
    const options = { hint: '`error.result` is the run, with its output and traceback.', result: this }
    throw timedOut
      ? new RunTimeoutError('run_timed_out', reason, options)
      : new RunFailedError('run_failed', reason, options)
  }
}

export function readRunResult(answer: RunResultAnswer): RunResult {
  const results = answer.results.map((data) => new Result(data))
  return Object.assign(new RunResult(), answer, { results })
}

/** How much of the end of stderr a message has. */
export const STDERR_CHARACTERS = 500
