import { z } from 'zod'
import { integerText, sandboxIdField, sandboxRefField, timestampField } from './fields.ts'

const SERVER_EVENT_TYPES = [
  'gap',
  'sandbox.changed',
  'sandbox.deleted',
  'sandbox.ledger',
  'sandbox.usage',
  'run.started',
  'run.finished',
  'template.changed',
  'job.created',
  'job.ended',
  'deploy.started',
  'deploy.ready',
  'deploy.failed',
  'deploy.rolled_back',
] as const

export const serverEventSchema = z
  .strictObject({
    seq: z.int().describe('Grows with every event, also when the server restarts.'),
    type: z
      .enum(SERVER_EVENT_TYPES)
      .describe(
        '`gap`: earlier events are gone or the server restarted here, so read the lists again. `sandbox.changed` has the sandbox as it is when the event is sent, `sandbox.ledger` the entry, `run.*` the run, `job.*` the job, `deploy.*` the service and its version.',
      ),
    at: timestampField,
    sandboxId: sandboxIdField.optional(),
    data: z.record(z.string(), z.unknown()).readonly(),
  })
  .meta({
    id: 'ServerEvent',
    examples: [
      {
        seq: 1_790_000_000_000_001,
        type: 'sandbox.ledger',
        at: '2026-01-01T12:00:00.000Z',
        sandboxId: 'sb-k3v9x2m4p7q8r5t6',
        data: { event: 'woke', cause: 'run', tier: 'stored', latencyMs: 24.8 },
      },
    ],
  })

export const serverEventsQuery = z.strictObject({
  after: integerText({ min: 0, max: Number.MAX_SAFE_INTEGER })
    .exactOptional()
    .describe(
      'Continue after this `seq`. Default: only what happens from now on. `Last-Event-ID` has the same meaning.',
    ),
  sandbox: sandboxRefField.exactOptional().describe('Only events of this sandbox.'),
})

export type ServerEventAnswer = z.output<typeof serverEventSchema>
