import type { ErrorAnswer } from './contract/index.ts'
import type { CommandResult } from './processes/command-result.ts'
import type { RunResult } from './runs/run-result.ts'

/**
 * Every code of the server, and those of this SDK: `run_failed` and `run_timed_out` (see `check()`), and `timed_out`: the
 * `timeoutMs` of a call passed.
 */
export type DormouseErrorCode = ErrorAnswer['error']['code'] | 'run_failed' | 'run_timed_out' | 'timed_out'

export interface DormouseErrorOptions {
  readonly hint?: string | undefined
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly docs?: string | undefined
  readonly details?: Readonly<Record<string, unknown>> | undefined
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
}

/** The error class. Programs decide on `code`; `message` and `hint` are for people. */
export class DormouseError extends Error {
  override readonly name: string = 'DormouseError'
  readonly code: DormouseErrorCode
  /** What to do next. */
  readonly hint: string
  /** The HTTP status; undefined if there was no answer. */
  readonly status: number | undefined
  /** Identifies the request in the server's log. */
  readonly requestId: string | undefined
  /** Where the code is explained. */
  readonly docs: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  /** How long the server asks to wait before the next attempt. */
  readonly retryAfterMs: number | undefined

  constructor(code: DormouseErrorCode, message: string, options: DormouseErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.hint = options.hint ?? ''
    this.status = options.status
    this.requestId = options.requestId
    this.docs = options.docs
    this.details = options.details ?? {}
    this.retryAfterMs = options.retryAfterMs
  }
}

/** Code or a command failed, and `check()`, `map` or `race` threw. */
export class RunFailedError extends DormouseError {
  override readonly name: string = 'RunFailedError'
  /** The run or the command, with its output. Undefined if a race failed for another reason. */
  readonly result: RunResult | CommandResult | undefined

  constructor(
    code: 'run_failed' | 'run_timed_out',
    message: string,
    { result, ...options }: DormouseErrorOptions & { readonly result?: RunResult | CommandResult } = {},
  ) {
    super(code, message, options)
    this.result = result
  }
}

/** Code or a command was ended because its `timeoutMs` had passed. */
export class RunTimeoutError extends RunFailedError {
  override readonly name: string = 'RunTimeoutError'
}

export function hasCode(error: unknown, ...codes: DormouseErrorCode[]): error is DormouseError {
  return error instanceof DormouseError && codes.includes(error.code)
}

/** What an aborted call throws; `cause` is the reason of the signal. `AbortSignal.timeout()` makes it a time-out. */
export function cancelled(signal: AbortSignal): DormouseError {
  const cause: unknown = signal.reason
  if ((cause as { name?: unknown } | undefined)?.name === 'TimeoutError')
    return new DormouseError('timed_out', 'The time of the signal passed before the end of the call.', {
      cause,
    })
  return new DormouseError('cancelled', 'The caller cancelled the call before its end.', { cause })
}

export function timedOut(timeoutMs: number): DormouseError {
  return new DormouseError('timed_out', `The call did not end within its timeoutMs of ${timeoutMs} ms.`, {
    hint: 'Give a longer `timeoutMs`. What was started in the sandbox may continue.',
  })
}

export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal !== undefined && typeof signal.addEventListener !== 'function')
    throw new DormouseError('invalid_argument', 'signal: must be an AbortSignal', {
      hint: 'Give `controller.signal`, not the controller.',
    })
  if (signal?.aborted) throw cancelled(signal)
}
