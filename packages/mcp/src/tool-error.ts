import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { DormouseError, type DormouseErrorCode } from 'dormouse'
import type { z } from 'zod'

const CORRECT = 'Correct the named input and call again.'

/** Where a program finds the code and its kind; the structured part must match the tool's own schema. */
export const ERROR_META = 'dormouse/error'

interface Failure {
  readonly code: DormouseErrorCode
  readonly message: string
  readonly hint: string
  readonly requestId?: string | undefined
  readonly retryAfterMs?: number | undefined
}

/** A failure that the model can read and do something about. */
export function toolError(failure: Failure): CallToolResult {
  const { code, message, hint } = failure
  const text = `${code}: ${message}${hint === '' ? '' : `\nHint: ${hint}`}`
  return {
    isError: true,
    content: [{ type: 'text', text }],
    _meta: { [ERROR_META]: JSON.parse(JSON.stringify(failure)) },
  }
}

/** What is not one of ours is a bug: its message is for the log, not for the model. */
export function toolErrorFrom(error: unknown): CallToolResult | undefined {
  if (!(error instanceof DormouseError)) return undefined
  const { code, message, hint, requestId, retryAfterMs } = error
  if (code !== 'invalid_argument') return toolError({ code, message, hint, requestId, retryAfterMs })
  // The model sees inputs of a tool, not the parts of a request.
  const said = message.replace(/^(body|query|path): /, '')
  return toolError({ code, message: said, hint: CORRECT, requestId })
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
