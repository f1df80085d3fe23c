import { z } from 'zod'
import { sandboxIdField, timestampField } from './fields.ts'

export const usageQuery = z
  .strictObject({
    from: timestampField.exactOptional().describe('Default: the beginning of this month.'),
    to: timestampField.exactOptional().describe('Default: now.'),
    sandboxId: sandboxIdField.exactOptional(),
    format: z.enum(['json', 'csv']).exactOptional().describe('Takes precedence over `Accept`.'),
  })
  .refine(({ from, to }) => from === undefined || to === undefined || Date.parse(from) < Date.parse(to), {
    error: 'must be later than `from`',
    path: ['to'],
  })

const numbers = {
  runningSeconds: z.number(),
  cpuSeconds: z.number(),
  memoryGbSeconds: z.number(),
  storedGbHours: z.number().describe('Bytes shared by several snapshots are counted once.'),
  wakes: z.int(),
  forks: z.int(),
  savedTokens: z
    .int()
    .describe(
      'About how many tokens kept variables saved: a tool without state sends the code of all earlier runs again.',
    ),
  cost: z.number().describe('Computed with the price table of the server.'),
  alwaysOnCost: z.number().describe('What the same time would have cost without standby.'),
}

const EXAMPLE = {
  runningSeconds: 84.2,
  cpuSeconds: 12.9,
  memoryGbSeconds: 9.1,
  storedGbHours: 0.3,
  wakes: 14,
  forks: 3,
  savedTokens: 5200,
  cost: 0.002,
  alwaysOnCost: 0.31,
}

export const usageSchema = z
  .strictObject({
    from: timestampField.describe('The beginning of the first hour included. Usage is recorded by the hour.'),
    to: timestampField.describe('The end of the last hour included, or now if that hour is not over.'),
    currency: z.string(),
    total: z.strictObject(numbers),
    keys: z
      .array(z.strictObject({ keyId: z.string(), ...numbers }))
      .readonly()
      .describe('Per key that owns sandboxes. A key without the scope `admin` sees its own.'),
    sandboxes: z
      .array(
        z.strictObject({
          sandboxId: sandboxIdField,
          keyId: z.string().describe('The key that owns it.'),
          name: z.string().optional(),
          deleted: z.boolean(),
          ...numbers,
        }),
      )
      .readonly(),
  })
  .meta({
    id: 'Usage',
    examples: [
      {
        from: '2026-01-01T00:00:00.000Z',
        to: '2026-02-01T00:00:00.000Z',
        currency: 'USD',
        total: EXAMPLE,
        keys: [{ keyId: 'key-1', ...EXAMPLE }],
        sandboxes: [{ sandboxId: 'sb-k3v9x2m4p7q8r5t6', keyId: 'key-1', deleted: false, ...EXAMPLE }],
      },
    ],
  })

export type UsageAnswer = z.output<typeof usageSchema>
