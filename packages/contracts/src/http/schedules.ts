import { z } from 'zod'
import { CODE_MAX_BYTES, RUN_TIMEOUT_MAX_MS } from '../limits.ts'
import { nameField, pageOf, pageQuery, sandboxRefField, textField, timestampField } from './fields.ts'
import { createJobSchema } from './jobs.ts'
import { languageField } from './runs.ts'
import { serviceRefField } from './services.ts'

const CRON_MAX_CHARACTERS = 200
const HEADERS_MAX = 32
const BODY_MAX_BYTES = 256 * 1024
const PATH_MAX_CHARACTERS = 4096

const runAction = z.strictObject({
  type: z.literal('run'),
  sandbox: sandboxRefField,
  code: textField({ maxBytes: CODE_MAX_BYTES, minLength: 1 }),
  language: languageField.exactOptional(),
  context: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
    .exactOptional(),
  timeoutMs: z.int().min(1).max(RUN_TIMEOUT_MAX_MS).exactOptional(),
})

const headerName = z.string().regex(/^[A-Za-z0-9-]{1,64}$/, 'must be letters, digits and "-"')
const headerValue = z.string().regex(/^[\x20-\x7e]{0,4096}$/, 'must be printable ASCII')

const requestFields = {
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']).default('POST'),
  path: z
    .string()
    .regex(/^\/[\x21-\x7e]*$/, 'must begin with "/" and be printable ASCII')
    .max(PATH_MAX_CHARACTERS)
    .default('/'),
  headers: z
    .record(headerName, headerValue)
    .refine((headers) => Object.keys(headers).length <= HEADERS_MAX, {
      error: `must have at most ${HEADERS_MAX} entries`,
    })
    .exactOptional(),
  body: textField({ maxBytes: BODY_MAX_BYTES }).exactOptional(),
}

const requestAction = z.strictObject({
  type: z.literal('request'),
  sandbox: sandboxRefField,
  port: z.int().min(1).max(65_535),
  ...requestFields,
})

const serviceAction = z.strictObject({
  type: z.literal('service'),
  service: serviceRefField,
  ...requestFields,
})

const jobAction = z.strictObject({
  type: z.literal('job'),
  job: createJobSchema.describe('The body of `POST /v1/jobs`. `idempotencyKey` is set for each firing.'),
})

const actionField = z
  .discriminatedUnion('type', [runAction, jobAction, requestAction, serviceAction])
  .describe(
    '`run` runs code in a sandbox, `job` starts a job, `request` calls a port of a sandbox, `service` calls a service by its name. Sandboxes are woken.',
  )

const cronField = z
  .string()
  .min(1)
  .max(CRON_MAX_CHARACTERS)
  .describe(
    'Five fields (minute, hour, day of month, month, day of week), or six with seconds first; or `@hourly` and so on.',
  )
const timezoneField = z.string().min(1).max(64).describe('Of the IANA database, such as `Europe/Berlin`.')
const missedField = z
  .enum(['skip', 'once'])
  .describe(
    'What happens with times that passed while no server ran, or that are more than a minute late: nothing, or one firing for the latest.',
  )

export const createScheduleSchema = z
  .strictObject({
    name: nameField.describe('Unique among the schedules of this key.'),
    cron: cronField,
    timezone: timezoneField.default('UTC'),
    missed: missedField.default('skip'),
    enabled: z.boolean().default(true),
    action: actionField,
  })
  .meta({
    id: 'CreateSchedule',
    examples: [
      {
        name: 'nightly',
        cron: '30 2 * * *',
        timezone: 'Europe/Berlin',
        action: { type: 'run', sandbox: 'analysis', code: 'refresh()' },
      },
    ],
  })

export const updateScheduleSchema = z
  .strictObject({
    cron: cronField.exactOptional(),
    timezone: timezoneField.exactOptional(),
    missed: missedField.exactOptional(),
    enabled: z.boolean().exactOptional(),
    action: actionField.exactOptional(),
  })
  .refine((change) => Object.keys(change).length > 0, { error: 'has nothing to change' })
  .meta({ id: 'UpdateSchedule', examples: [{ enabled: false }] })

export const firingSchema = z
  .strictObject({
    at: timestampField.describe('The time that it stands for.'),
    state: z
      .enum(['pending', 'done', 'failed'])
      .describe('`done`: the run or the job was started, or the request was answered.'),
    jobId: z.string().optional(),
    sandboxId: z.string().optional(),
    runId: z.string().optional(),
    status: z.int().optional().describe('Of the answer to a request.'),
    error: z.string().optional(),
    finishedAt: timestampField.optional(),
  })
  .meta({
    id: 'Firing',
    examples: [{ at: '2026-01-01T01:30:00.000Z', state: 'done', jobId: 'job-k3v9x2m4p7q8r5t6' }],
  })

export const scheduleSchema = z
  .strictObject({
    name: nameField,
    cron: z.string(),
    timezone: z.string(),
    missed: z.enum(['skip', 'once']),
    enabled: z.boolean(),
    action: z.record(z.string(), z.unknown()).describe('As it was given.'),
    createdAt: timestampField,
    nextAt: timestampField.optional().describe('When it fires next.'),
    last: firingSchema.optional(),
  })
  .meta({
    id: 'Schedule',
    examples: [
      {
        name: 'nightly',
        cron: '30 2 * * *',
        timezone: 'Europe/Berlin',
        missed: 'skip',
        enabled: true,
        action: { type: 'run', sandbox: 'analysis', code: 'refresh()' },
        createdAt: '2026-01-01T12:00:00.000Z',
        nextAt: '2026-01-02T01:30:00.000Z',
      },
    ],
  })

export const schedulePageSchema = pageOf(scheduleSchema).meta({ id: 'SchedulePage' })
export const firingListSchema = z
  .strictObject({ items: z.array(firingSchema).readonly() })
  .meta({ id: 'FiringList' })
export const listSchedulesQuery = z.strictObject(pageQuery)
export const scheduleParams = z.strictObject({ name: nameField })

export type CreateScheduleBody = z.input<typeof createScheduleSchema>
export type UpdateScheduleBody = z.input<typeof updateScheduleSchema>
export type ScheduleAnswer = z.output<typeof scheduleSchema>
export type SchedulePageAnswer = z.output<typeof schedulePageSchema>
export type FiringAnswer = z.output<typeof firingSchema>
export type FiringListAnswer = z.output<typeof firingListSchema>
