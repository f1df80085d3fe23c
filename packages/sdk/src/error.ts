import type { ErrorAnswer } from './contract/index.ts'

/** Every code of the server, and `run_failed`: code failed in `map` or `race`. */
export type DormouseErrorCode = ErrorAnswer['error']['code'] | 'run_failed'

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
  override readonly name = 'DormouseError'
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

export function hasCode(error: unknown, ...codes: DormouseErrorCode[]): error is DormouseError {
  return error instanceof DormouseError && codes.includes(error.code)
}

/** What an aborted call throws; `cause` is the reason of the signal. */
export function cancelled(signal: AbortSignal): DormouseError {
  return new DormouseError('cancelled', 'The caller cancelled the call before its end.', {
    cause: signal.reason,
  })
}

export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw cancelled(signal)
}
