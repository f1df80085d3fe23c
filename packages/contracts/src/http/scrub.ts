import { z } from 'zod'
import { sandboxIdField, snapshotIdField, timestampField } from './fields.ts'

const found = { reason: z.string(), foundAt: timestampField }

export const scrubSchema = z
  .strictObject({
    state: z.enum(['idle', 'running']),
    progress: z
      .strictObject({ parts: z.int(), checkedParts: z.int() })
      .optional()
      .describe('While the scrub runs: the number of parts, and how many it has checked.'),
    beganAt: timestampField.optional().describe('When the current or the last pass began.'),
    finishedAt: timestampField.optional().describe('When the last complete pass ended.'),
    readBytes: z.int().describe('Bytes read by all passes so far.'),
    damagedSnapshots: z
      .array(z.strictObject({ snapshotId: snapshotIdField, sandboxId: sandboxIdField, ...found }))
      .readonly(),
    damagedTemplates: z.array(z.strictObject({ template: z.string(), ...found })).readonly(),
  })
  .meta({
    id: 'Scrub',
    examples: [
      {
        state: 'idle',
        beganAt: '2026-01-01T12:00:00.000Z',
        finishedAt: '2026-01-01T12:20:00.000Z',
        readBytes: 52_000_000_000,
        damagedSnapshots: [],
        damagedTemplates: [],
      },
    ],
  })

export type ScrubAnswer = z.output<typeof scrubSchema>
