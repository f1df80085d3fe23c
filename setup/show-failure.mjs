import { UsageError } from './arguments.mjs'
import { StepError } from './run-steps.mjs'

const NO_SPACE = /\b(ENOSPC|EDQUOT)\b|No space left on device|Disk quota exceeded/
const NO_SPACE_HINT = 'Free some disk space, then run this again. Finished steps are kept.'

/**
 * Shows what failed, the last output of the failed program, and a hint. Returns the exit status.
 * @param {unknown} error
 * @param {{ write(text: string): unknown }} output
 * @param {{ isJson?: boolean, command?: string | undefined }} [how] `command`: one that has a help of its own
 * @returns {number}
 */
export function showFailure(error, output, { isJson = false, command } = {}) {
  const failure = describe(error, command)
  const status = error instanceof UsageError ? 2 : 1
  if (isJson) output.write(failureLine(failure))
  else if (error instanceof UsageError) output.write(`dormouse: ${failure.message}\n${failure.hint}\n`)
  else {
    const { message, hint, output: lines = [] } = failure
    output.write(`\ndormouse: ${message}\n`)
    if (lines.length > 0)
      output.write(`\nLast lines of its output:\n${lines.map((line) => `  | ${line}\n`).join('')}`)
    if (hint !== undefined) output.write(`\nWhat to do: ${hint}\n`)
    else if (error instanceof Error && lines.length === 0) output.write(`${error.stack}\n`)
  }
  return status
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
 * @param {string | undefined} command
 * @returns {{ code: string, message: string, hint?: string | undefined, output?: string[] | undefined }}
 */
function describe(error, command) {
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof UsageError) {
    const hint =
      command === undefined
        ? 'Run `./dormouse help` for a list of commands.'
        : `Run \`./dormouse ${command} --help\` for what it takes.`
    return { code: 'usage', message, hint }
  }
  const isStep = error instanceof StepError
  const cause = isStep ? error.cause : error
  const lines = outputOf(cause)
  const output = lines.length > 0 ? lines : undefined
  if (NO_SPACE.test([message, ...lines].join('\n')))
    return { code: 'no_space', message, hint: NO_SPACE_HINT, output }
  return {
    code: codeOf(cause) ?? (isStep ? 'setup_failed' : 'internal'),
    message,
    hint: hintOf(cause) ?? (isStep ? error.step.hint : undefined),
    output,
  }
}

/**
 * The code of one of our errors. Those of the system, such as EACCES, are in the message.
 * @param {unknown} error
 * @returns {string | undefined}
 */
function codeOf(error) {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && /^[a-z_]+$/.test(code) ? code : undefined
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
