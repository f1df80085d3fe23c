/** What goes wrong on this side of the server, with what to do next. */
export class Problem extends Error {
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

/** A mistake in what was typed. */
export class UsageProblem extends Problem {
  constructor(message: string, hint = '') {
    super('usage', message, { hint, exitCode: 2 })
  }
}
