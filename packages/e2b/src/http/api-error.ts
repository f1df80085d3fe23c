import { DormouseError } from '@dormouse/contracts'

/** An error with the status and the sentence that E2B's clients get. */
export class ApiError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Status and message of any error, for a body `{code, message}`. */
export function describeError(error: unknown): { readonly status: number; readonly message: string } {
  if (error instanceof ApiError) return { status: error.status, message: error.message }
  if (!(error instanceof DormouseError)) return { status: 500, message: 'Internal server error' }
  const hint = error.hint === undefined || error.hint === '' ? '' : ` ${error.hint}`
  return { status: error.status, message: `${error.message}${hint}` }
}
