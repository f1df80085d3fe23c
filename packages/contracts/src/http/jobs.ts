import { z } from 'zod'
import { CODE_MAX_BYTES, RUN_TIMEOUT_MAX_MS } from '../limits.ts'
import {
  booleanTextOr,
  ISOLATION_TEXT,
  integerText,
  integerTextOr,
  isolationField,
  nameField,
  PAGE_LIMIT_MAX,
  pageOf,
  pageQuery,
  sandboxIdField,
  sandboxRefField,
  snapshotIdField,
  snapshotRefField,
  textField,
  timestampField,
} from './fields.ts'
import { languageField, runResultSchema } from './runs.ts'
import { createSandboxSchema } from './sandboxes.ts'

/** Larger lists belong in a file or a volume, with the ranges of it as inputs. */
const JOB_MAX_INPUTS = 10_000
/** The server holds the inputs of a job in memory while it checks them. */
const JOB_INPUT_MAX_BYTES = 256 * 1024
const JOB_MAX_CONCURRENCY = 256
const RETRIES_MAX = 20
const BACKOFF_MAX_MS = 3_600_000
const DEFAULT_TIMEOUT_MS = 600_000
const KEY_MAX_CHARACTERS = 128

const jobIdField = z.string().regex(/^job-[2-9a-km-np-z]{16}$/, 'is not the id of a job')

const contextField = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be 1-64 letters, digits, ".", "_" or "-"')

const inputField = z.unknown().refine((value) => JSON.stringify(value).length <= JOB_INPUT_MAX_BYTES, {
  error: `must be at most ${JOB_INPUT_MAX_BYTES} bytes of JSON`,
})

const { env, limits, volumes, network, secrets, metadata, isolation } = createSandboxSchema.shape

const retrySchema = z
  .strictObject({
    retries: z.int().min(0).max(RETRIES_MAX).default(0).describe('How often a task that failed runs again.'),
    backoffMs: z
      .int()
      .min(0)
      .max(BACKOFF_MAX_MS)
      .default(1_000)
      .describe('The pause before the first retry. It doubles with each further one, up to an hour.'),
  })
  .default({ retries: 0, backoffMs: 1_000 })

export const createJobSchema = z
  .strictObject({
    code: textField({ maxBytes: CODE_MAX_BYTES, minLength: 1 })
      .exactOptional()
      .describe('Code to run for each input, which it finds in `variable`.'),
    command: textField({ maxBytes: CODE_MAX_BYTES, minLength: 1 })
      .exactOptional()
      .describe('A command for bash instead of `code`. It finds its input in the environment.'),
    language: languageField.exactOptional().describe('Of `code`. Default: `python`.'),
    context: contextField
      .exactOptional()
      .describe('The context of the sandbox to run `code` in. Default: as for runs.'),
    variable: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'must be a name of letters, digits and "_"')
      .default('item')
      .describe(
        'The variable that has the input: a value in Python and JavaScript; nested lists in R; in bash text, which is JSON unless the input is a string.',
      ),
    inputs: z
      .array(inputField)
      .min(1)
      .max(JOB_MAX_INPUTS)
      .describe('Any JSON. One task for each; its result has the same index.'),
    template: nameField.exactOptional().describe('Run tasks in new sandboxes of this template.'),
    snapshot: snapshotRefField.exactOptional().describe('Run tasks in new sandboxes from this snapshot.'),
    sandbox: sandboxRefField
      .exactOptional()
      .describe('Run tasks in forks of this sandbox, all of its state when the job was created.'),
    isolation,
    sandboxPer: z
      .enum(['task', 'worker'])
      .default('task')
      .describe(
        '`task`: each task has a sandbox of its own. `worker`: each of `concurrency` sandboxes runs many tasks in sequence, which see what earlier ones left; this is faster.',
      ),
    concurrency: z
      .int()
      .min(1)
      .max(JOB_MAX_CONCURRENCY)
      .default(4)
      .describe('How many tasks run at once, at most. The server has a limit for all jobs.'),
    retry: retrySchema,
    timeoutMs: z
      .int()
      .min(1)
      .max(RUN_TIMEOUT_MAX_MS)
      .default(DEFAULT_TIMEOUT_MS)
      .describe('How long one attempt of a task may take.'),
    priority: z
      .int()
      .min(-100)
      .max(100)
      .default(0)
      .describe(
        'Tasks of jobs with a higher priority start first. Running tasks are not stopped for others.',
      ),
    name: nameField.exactOptional().describe('A label. Several jobs may have the same.'),
    metadata,
    env: env.exactOptional(),
    limits,
    volumes: volumes.exactOptional(),
    network,
    secrets: secrets.exactOptional(),
    idempotencyKey: z
      .string()
      .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces')
      .max(KEY_MAX_CHARACTERS)
      .exactOptional()
      .describe('A repeated request with the same key returns the first job.'),
  })
  .refine(({ code, command }) => (code === undefined) !== (command === undefined), {
    error: 'needs either `code` or `command`',
    path: ['code'],
  })
  .refine(
    ({ command, language, context }) =>
      command === undefined || (language === undefined && context === undefined),
    {
      error: 'cannot be given together with `language` or `context`',
      path: ['command'],
    },
  )
  .refine(
    ({ template, snapshot, sandbox }) =>
      [template, snapshot, sandbox].filter((origin) => origin !== undefined).length <= 1,
    { error: 'only one of `template`, `snapshot` and `sandbox` can be given', path: ['sandbox'] },
  )
  .meta({
    id: 'CreateJob',
    examples: [{ code: 'item * item', inputs: [1, 2, 3], concurrency: 2, retry: { retries: 2 } }],
  })

const countsSchema = z
  .strictObject({
    queued: z.int(),
    running: z.int(),
    succeeded: z.int(),
    failed: z.int(),
    cancelled: z.int(),
  })
  .describe('How many tasks are in each state.')

export const jobSchema = z
  .strictObject({
    id: jobIdField,
    name: nameField.optional(),
    state: z
      .enum(['queued', 'running', 'cancelling', 'finished', 'cancelled'])
      .describe('`finished`: every task has succeeded or failed, and its sandboxes are deleted.'),
    tasks: countsSchema,
    total: z.int().describe('How many tasks there are.'),
    origin: z
      .strictObject({
        template: nameField.optional(),
        snapshotId: snapshotIdField.optional(),
        sandboxId: sandboxIdField.optional(),
      })
      .describe('What its sandboxes start from.'),
    isolation: isolationField.optional().describe(`${ISOLATION_TEXT} Absent if the request named none.`),
    sandboxPer: z.enum(['task', 'worker']),
    concurrency: z.int(),
    priority: z.int(),
    timeoutMs: z.int(),
    retry: z.strictObject({ retries: z.int(), backoffMs: z.int() }),
    metadata: z.record(z.string(), z.string()).readonly(),
    createdAt: timestampField,
    startedAt: timestampField.optional(),
    finishedAt: timestampField.optional(),
    resultBytes: z.int().describe('What its results take.'),
    lastSeq: z.int().describe('The `seq` of its newest event.'),
  })
  .meta({
    id: 'Job',
    examples: [
      {
        id: 'job-k3v9x2m4p7q8r5t6',
        state: 'running',
        tasks: { queued: 1, running: 1, succeeded: 1, failed: 0, cancelled: 0 },
        total: 3,
        origin: { template: 'python' },
        sandboxPer: 'task',
        concurrency: 4,
        priority: 0,
        timeoutMs: 600_000,
        retry: { retries: 0, backoffMs: 1_000 },
        metadata: {},
        createdAt: '2026-01-01T12:00:00.000Z',
        startedAt: '2026-01-01T12:00:00.010Z',
        resultBytes: 120,
        lastSeq: 1,
      },
    ],
  })

const taskState = z.enum(['queued', 'running', 'succeeded', 'failed', 'cancelled'])

const taskResultSchema = runResultSchema
  .extend({
    text: z.string().optional().describe('The value of the last expression, as a notebook shows it.'),
    mainResult: z.int().optional().describe('Which of `results` is the value of the last expression.'),
  })
  .meta({ id: 'TaskResult' })

export const taskSchema = z
  .strictObject({
    index: z.int().describe('Which input it is for.'),
    state: taskState,
    attempts: z.int().describe('How often it was started.'),
    reason: z
      .enum(['failed', 'timed_out', 'out_of_memory', 'lost', 'refused', 'cancelled'])
      .optional()
      .describe(
        'Why the last attempt failed. `failed`: an exception, or an exit status other than 0. `lost`: its processes ended. `refused`: it could not begin.',
      ),
    message: z.string().optional(),
    startedAt: timestampField.optional(),
    finishedAt: timestampField.optional(),
    sandboxId: sandboxIdField.optional().describe('While it runs.'),
    result: taskResultSchema.optional(),
  })
  .meta({
    id: 'Task',
    examples: [
      {
        index: 2,
        state: 'succeeded',
        attempts: 1,
        startedAt: '2026-01-01T12:00:00.010Z',
        finishedAt: '2026-01-01T12:00:00.090Z',
      },
    ],
  })

export const jobEventSchema = z
  .discriminatedUnion('type', [
    z.strictObject({
      seq: z.int().describe('Counts the tasks of this job that have ended, from 1.'),
      type: z.literal('task'),
      task: taskSchema,
    }),
    z.strictObject({ seq: z.int(), type: z.literal('end'), job: jobSchema }),
  ])
  .meta({ id: 'JobEvent' })

export const jobPageSchema = pageOf(jobSchema).meta({ id: 'JobPage' })
export const taskPageSchema = z
  .strictObject({
    items: z.array(taskSchema).readonly(),
    nextAfter: z.int().optional().describe('`after` of the next page. Absent on the last page.'),
  })
  .meta({ id: 'TaskPage' })

const resultsField = booleanTextOr(false).describe('Whether tasks have their `result`.')

export const listJobsQuery = z.strictObject(pageQuery)
export const jobParams = z.strictObject({ id: jobIdField })
export const taskParams = z.strictObject({
  id: jobIdField,
  index: integerText({ min: 0, max: JOB_MAX_INPUTS }),
})
export const listTasksQuery = z.strictObject({
  state: taskState.exactOptional(),
  after: integerTextOr(-1, { min: -1, max: JOB_MAX_INPUTS }).describe('Only tasks with a higher index.'),
  limit: integerTextOr(100, { min: 1, max: PAGE_LIMIT_MAX }),
  results: resultsField,
})
export const jobEventsQuery = z.strictObject({
  after: integerTextOr(0, { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
    'Only events with a higher `seq`.',
  ),
  results: resultsField,
})

export type CreateJobBody = z.input<typeof createJobSchema>
export type JobAnswer = z.output<typeof jobSchema>
export type JobPageAnswer = z.output<typeof jobPageSchema>
export type TaskAnswer = z.output<typeof taskSchema>
export type TaskResultAnswer = z.output<typeof taskResultSchema>
export type TaskPageAnswer = z.output<typeof taskPageSchema>
export type JobEventAnswer = z.output<typeof jobEventSchema>
