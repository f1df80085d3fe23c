import type { ProcessResultAnswer } from '../contract/index.ts'
import { RunFailedError, RunTimeoutError } from '../error.ts'
import { STDERR_CHARACTERS } from '../runs/run-result.ts'

/** How a command ended, and its output. An exit code other than 0 throws nothing; `check()` does. */
export class CommandResult implements ProcessResultAnswer {
  stdout = ''
  stderr = ''
  exitCode = -1
  durationMs = 0
  readonly processId: string
  readonly pid: number
  declare timedOut?: boolean | undefined
  /** The signal that ended it, such as `SIGKILL`. */
  declare signal?: string | undefined
  /** Why Linux killed a process of the command: the limit, the peak and what to do. */
  declare outOfMemory?: string | undefined
  declare truncated?: { stdoutBytes: number; stderrBytes: number } | undefined

  constructor(processId: string, pid: number) {
    this.processId = processId
    this.pid = pid
  }

  get ok(): boolean {
    return this.exitCode === 0
  }

  /** Returns the result. Throws `RunFailedError` if it failed, `RunTimeoutError` if its `timeoutMs` passed. */
  check(): this {
    if (this.ok) return this
    const options = { hint: '`error.result` has its output.', result: this }
    if (this.timedOut === true) {
      const message = `The command was ended after ${this.durationMs} ms, because its timeoutMs had passed.`
      throw new RunTimeoutError('run_timed_out', message, options)
    }
    const message = this.outOfMemory ?? `exit code ${this.exitCode}: ${this.stderr.slice(-STDERR_CHARACTERS)}`
    throw new RunFailedError('run_failed', message, options)
  }
}
