import { z } from 'zod'
import { sandboxIdField, timestampField } from './fields.ts'

/** The largest number of sandboxes in one request. */
const ACTIVITY_MAX_SANDBOXES = 100

export const overviewSchema = z
  .strictObject({
    running: z.int(),
    frozen: z.int(),
    stored: z.int(),
    failed: z.int().describe('Damaged, so that they cannot wake.'),
    memoryHeldBytes: z.int().describe('Memory of sandboxes that run or are frozen, as last sampled.'),
    memorySavedBytes: z.int().describe('Memory that stored sandboxes have on disk instead of in memory.'),
    cost: z.strictObject({
      currency: z.string(),
      spent: z.number(),
      alwaysOn: z.number().describe('What this month would have cost without standby.'),
    }),
    wakes: z.strictObject({
      count: z.int().describe('The latest wakes since the server started, at most 1,000.'),
      p50Ms: z.number().optional(),
      p99Ms: z.number().optional(),
    }),
  })
  .meta({
    id: 'Overview',
    examples: [
      {
        running: 3,
        frozen: 12,
        stored: 240,
        failed: 0,
        memoryHeldBytes: 1_430_000_000,
        memorySavedBytes: 22_000_000_000,
        cost: { currency: 'USD', spent: 0.42, alwaysOn: 61.2 },
        wakes: { count: 1000, p50Ms: 9.1, p99Ms: 41.7 },
      },
    ],
  })

const spanSchema = z.strictObject({
  state: z.enum(['running', 'frozen', 'stored']),
  from: timestampField,
  to: timestampField,
})

export const activitySchema = z
  .strictObject({
    items: z
      .array(
        z.strictObject({
          sandboxId: sandboxIdField,
          why: z.string().describe('What keeps it awake, or how it sleeps.'),
          memoryBytes: z.int().optional().describe('As last sampled. Absent while it is on disk only.'),
          day: z
            .array(spanSchema)
            .readonly()
            .describe('Awake and asleep in the last 24 hours, oldest first.'),
          lastRun: z
            .strictObject({
              runId: z.string(),
              state: z.enum(['running', 'finished', 'lost', 'queued']),
              code: z.string().optional().describe('The beginning of its code.'),
              startedAt: timestampField,
              exitCode: z.int().optional(),
            })
            .optional(),
        }),
      )
      .readonly(),
  })
  .meta({
    id: 'Activity',
    examples: [
      {
        items: [
          {
            sandboxId: 'sb-k3v9x2m4p7q8r5t6',
            why: 'Asleep, on disk only.',
            day: [{ state: 'stored', from: '2026-01-01T00:00:00.000Z', to: '2026-01-01T12:00:00.000Z' }],
          },
        ],
      },
    ],
  })

export const activityQuery = z.strictObject({
  ids: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(sandboxIdField).min(1).max(ACTIVITY_MAX_SANDBOXES))
    .meta({
      type: 'string',
      description: 'Ids of sandboxes, separated by commas. Unknown ones are left out.',
    }),
})

export type OverviewAnswer = z.output<typeof overviewSchema>
export type ActivityAnswer = z.output<typeof activitySchema>
