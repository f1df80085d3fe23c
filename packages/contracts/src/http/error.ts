import { z } from 'zod'
import { ERRORS, type ErrorCode } from '../errors.ts'

const CODES = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]

/** Every answer that is not a success. */
export const errorSchema = z
  .strictObject({
    error: z.strictObject({
      code: z.enum(CODES).describe('Stable. Decide on this, never on the message.'),
      message: z.string().describe('For people: what is wrong, with the value that was seen.'),
      hint: z.string().describe('What to do next.'),
      requestId: z.string().describe('Also in the header `X-Request-Id` and in the server log.'),
      docs: z.string().describe('Where this code is explained.'),
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
