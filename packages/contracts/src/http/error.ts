import { z } from 'zod'
import { ERRORS, type ErrorCode } from '../errors.ts'

const CODES = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]

/** The body of every error response. */
export const errorSchema = z
  .strictObject({
    error: z.strictObject({
      code: z.enum(CODES).describe('Stable. Programs should check this, not the message.'),
      message: z.string().describe('For people: what is wrong, and the value that was received.'),
      hint: z.string().describe('What to do next.'),
      requestId: z.string().describe('Also in the header `X-Request-Id` and in the server log.'),
      docs: z.string().describe('Link to the documentation of this code.'),
      details: z.record(z.string(), z.unknown()).optional(),
    }),
  })
  .meta({
    id: 'Error',
    examples: [
      {
        error: {
          code: 'invalid_argument',
          message: 'body: count: Too big: expected number to be <=100 (saw 1000)',
          hint: 'Correct the named field and send the request again.',
          requestId: 'req-k3v9x2-1f',
          docs: 'docs/errors.md#invalid_argument',
          details: { field: 'count' },
        },
      },
    ],
  })

export type ErrorAnswer = z.output<typeof errorSchema>
