import { UsageError } from './arguments.mjs'
import { StepError } from './run-steps.mjs'

/**
 * Shows what failed, the last output of the failed program, and a hint. Returns the exit status.
 * @param {unknown} error
 * @param {{ write(text: string): unknown }} output
 * @param {{ isJson?: boolean }} [how]
 * @returns {number}
 */
export function showFailure(error, output, { isJson = false } = {}) {
  const message = error instanceof Error ? error.message : String(error)
  if (isJson) {
    output.write(failureLine(describe(error, message)))
    return error instanceof UsageError ? 2 : 1
  }
  if (error instanceof UsageError) {
    output.write(`dormouse: ${message}\nRun \`./dormouse help\` for a list of commands.\n`)
    return 2
  }
  const cause = error instanceof StepError ? error.cause : error
  const lines = outputOf(cause)
  output.write(`\ndormouse: ${message}\n`)
  if (lines.length > 0)
    output.write(`\nLast lines of its output:\n${lines.map((line) => `  | ${line}\n`).join('')}`)
  const hint = hintOf(cause) ?? (error instanceof StepError ? error.step.hint : undefined)
  if (hint !== undefined) output.write(`\nWhat to do: ${hint}\n`)
  else if (error instanceof Error && lines.length === 0) output.write(`${error.stack}\n`)
  return 1
}

/**
 * An error in JSON, in the format of every command.
 * @param {{ code: string, message: string, hint?: string | undefined, output?: string[] | undefined }} error
 */
export function failureLine(error) {
  return `${JSON.stringify({ error })}\n`
}

/**
 * @param {unknown} error
 * @param {string} message
 */
function describe(error, message) {
  if (error instanceof UsageError)
    return { code: 'usage', message, hint: 'Run `./dormouse help` for a list of commands.' }
  const isStep = error instanceof StepError
  const cause = isStep ? error.cause : error
  const output = outputOf(cause)
  return {
    code: codeOf(cause) ?? (isStep ? 'setup_failed' : 'internal'),
    message,
    hint: hintOf(cause) ?? (isStep ? error.step.hint : undefined),
    output: output.length > 0 ? output : undefined,
  }
}

/**
 * @param {unknown} error
 * @returns {string | undefined}
 */
function codeOf(error) {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/**
 * @param {unknown} error
 * @returns {string[]}
 */
function outputOf(error) {
  if (!(error instanceof Error)) return []
  if ('output' in error && Array.isArray(error.output)) return error.output
  const details = 'details' in error ? error.details : undefined
  if (
    typeof details === 'object' &&
    details !== null &&
    'output' in details &&
    Array.isArray(details.output)
  ) {
    return details.output
  }
  return []
}

/**
 * @param {unknown} error
 * @returns {string | undefined}
 */
function hintOf(error) {
  return error instanceof Error && 'hint' in error && typeof error.hint === 'string' ? error.hint : undefined
}
