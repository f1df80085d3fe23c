/** A failure that the client detects itself, with a hint. */
export class CliError extends Error {
  readonly code: string
  readonly hint: string
  readonly exitCode: number

  constructor(code: string, message: string, { hint = '', exitCode = 1 } = {}) {
    super(message)
    this.code = code
    this.hint = hint
    this.exitCode = exitCode
  }
}

/** A mistake on the command line. */
export class UsageError extends CliError {
  constructor(message: string, hint = '') {
    super('usage', message, { hint, exitCode: 2 })
  }
}
