import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { DormouseError, type DormouseErrorCode } from 'dormouse'
import type { z } from 'zod'

const CORRECT = 'Correct the named input and call again.'

/** Where programs find the error code: structured content must match the schema of the tool. */
export const ERROR_META = 'dormouse/error'

interface Failure {
  readonly code: DormouseErrorCode
  readonly message: string
  readonly hint: string
  readonly requestId?: string | undefined
  readonly retryAfterMs?: number | undefined
}

/** An error for the model, with a hint what to do. */
export function toolError(failure: Failure): CallToolResult {
  const { code, message, hint } = failure
  const text = `${code}: ${message}${hint === '' ? '' : `\nHint: ${hint}`}`
  return {
    isError: true,
    content: [{ type: 'text', text }],
    _meta: { [ERROR_META]: JSON.parse(JSON.stringify(failure)) },
  }
}

/** Undefined for other errors: those are bugs, and their messages are for the log. */
export function toolErrorFrom(error: unknown): CallToolResult | undefined {
  if (!(error instanceof DormouseError)) return undefined
  const { code, message, hint, requestId, retryAfterMs } = error
  if (code !== 'invalid_argument') return toolError({ code, message, hint, requestId, retryAfterMs })
  // The model knows the inputs of a tool, not the parts of an HTTP request.
  const input = message.replace(/^(body|query|path): /, '')
  return toolError({ code, message: input, hint: CORRECT, requestId })
}

export function invalidInput({ issues }: z.ZodError): CallToolResult {
  const problems = issues.map((issue) => {
    const field = issue.path.join('.')
    return field === '' ? issue.message : `${field}: ${issue.message}`
  })
  return toolError({
    code: 'invalid_argument',
    message: problems.join('; '),
    hint: CORRECT,
  })
}
