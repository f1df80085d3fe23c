import { z } from 'zod'
import { booleanTextOr, integerTextOr, timestampField } from './fields.ts'

export const serverReportSchema = z
  .strictObject({
    version: z.string(),
    startedAt: timestampField,
    canRunSandboxes: z.boolean().describe('No check failed.'),
    checks: z
      .array(
        z.strictObject({
          id: z.string(),
          title: z.string(),
          status: z.enum(['ok', 'warn', 'fail']),
          found: z.string().describe('What was seen on this host.'),
          meaning: z.string().describe('What sandboxes use it for.'),
          mend: z.string().optional().describe('How to fix it.'),
        }),
      )
      .readonly()
      .describe('What `dormouse doctor` checks on the host.'),
    disk: z.strictObject({ freeBytes: z.int(), totalBytes: z.int() }).describe('Of the data directory.'),
    memory: z.strictObject({ freeBytes: z.int(), totalBytes: z.int() }).describe('Of the host.'),
  })
  .meta({
    id: 'ServerReport',
    examples: [
      {
        version: '0.1.0',
        startedAt: '2026-01-01T12:00:00.000Z',
        canRunSandboxes: true,
        checks: [
          { id: 'overlay', title: 'overlayfs', status: 'ok', found: 'works', meaning: 'Stacks file layers.' },
        ],
        disk: { freeBytes: 20_000_000_000, totalBytes: 50_000_000_000 },
        memory: { freeBytes: 4_000_000_000, totalBytes: 16_000_000_000 },
      },
    ],
  })

export const serverLogQuery = z.strictObject({
  after: integerTextOr(-1, { min: -1, max: Number.MAX_SAFE_INTEGER }).describe(
    'Only lines after this `seq`.',
  ),
  follow: booleanTextOr(false).describe('Wait for more lines.'),
})

export const serverLogLineSchema = z
  .strictObject({
    seq: z.int(),
    text: z.string().describe('One JSON object, as the log has it. Long lines are cut.'),
  })
  .meta({ id: 'ServerLogLine', examples: [{ seq: 0, text: '{"level":30,"msg":"ready"}' }] })

export type ServerReportAnswer = z.output<typeof serverReportSchema>
export type ServerLogLineAnswer = z.output<typeof serverLogLineSchema>
