import { UsageError } from './arguments.mjs'
import { StepError } from './run-steps.mjs'

/**
 * Says what failed, shows the end of the output of the program that failed, and says what to do. Answers the exit status.
 * @param {unknown} error
 * @param {{ write(text: string): unknown }} output
 * @returns {number}
 */
export function showFailure(error, output) {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof UsageError) {
    output.write(`dormouse: ${message}\nRun \`./dormouse help\` for what there is.\n`)
    return 2
  }
  const cause = error instanceof StepError ? error.cause : error
  const lines = outputOf(cause)
  output.write(`\ndormouse: ${message}\n`)
  if (lines.length > 0)
    output.write(`\nThe end of its output:\n${lines.map((line) => `  | ${line}\n`).join('')}`)
  const hint = hintOf(cause) ?? (error instanceof StepError ? error.step.hint : undefined)
  if (hint !== undefined) output.write(`\nWhat to do: ${hint}\n`)
  else if (error instanceof Error && lines.length === 0) output.write(`${error.stack}\n`)
  return 1
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
