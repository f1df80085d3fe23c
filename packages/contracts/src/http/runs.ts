import { z } from 'zod'
import { LANGUAGES } from '../languages.ts'
import { CODE_MAX_BYTES, KEPT_CODE_MAX_BYTES, RUN_INPUT_MAX_BYTES, RUN_TIMEOUT_MAX_MS } from '../limits.ts'
import { errorSchema } from './error.ts'
import {
  booleanTextOr,
  integerText,
  integerTextOr,
  nameField,
  pageOf,
  pageQuery,
  runIdField,
  sandboxIdField,
  sandboxRefField,
  textField,
  timestampField,
} from './fields.ts'
import { createSandboxSchema, DEFAULT_TEMPLATE } from './sandboxes.ts'

const IDEMPOTENCY_KEY_MAX_CHARACTERS = 128

export const languageField = z.enum(LANGUAGES)
const contextField = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be 1-64 letters, digits, ".", "_" or "-"')

const codeFields = {
  code: textField({ maxBytes: CODE_MAX_BYTES }),
  timeoutMs: z
    .int()
    .min(1)
    .max(RUN_TIMEOUT_MAX_MS)
    .exactOptional()
    .describe(
      'Interrupts the run after this time, not counting the time that the sandbox sleeps. The call ends at most ten seconds later.',
    ),
}

export const runSchema = z
  .strictObject({
    ...codeFields,
    language: languageField
      .exactOptional()
      .describe(
        'Default: the language of the context. `bash` runs in any context; it keeps nothing, unless the context is a `bash`.',
      ),
    context: contextField
      .exactOptional()
      .describe(
        'The context to run in. It is created if it does not exist. Default: `default`; for JavaScript and TypeScript `javascript`.',
      ),
    idempotencyKey: z
      .string()
      .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces')
      .max(IDEMPOTENCY_KEY_MAX_CHARACTERS)
      .exactOptional()
      .describe(
        'A repeated request with the same key returns the first run and does not run the code again.',
      ),
    input: z
      .boolean()
      .exactOptional()
      .describe(
        'Whether the caller answers `input()` and `getpass()` of Python code and `dormouse.input()` of JavaScript, which send `input` events then. Without it they fail.',
      ),
    onDisconnect: z
      .enum(['continue', 'interrupt'])
      .default('continue')
      .describe('What happens to the run if the caller disconnects before its end.'),
  })
  .meta({ id: 'RunCode', examples: [{ code: 'import pandas as pd; pd.DataFrame({"a": [1, 2]})' }] })

/** Options of a sandbox that exists for one run. */
const { env, limits, volumes, network, secrets, isolation } = createSandboxSchema.shape
export const runOnceSchema = z
  .strictObject({
    ...codeFields,
    language: languageField.default('python'),
    template: nameField.default(DEFAULT_TEMPLATE),
    isolation,
    env,
    limits,
    volumes,
    network,
    secrets,
  })
  .meta({ id: 'RunOnce', examples: [{ code: 'print(1 + 1)' }] })

const resultData = z
  .record(z.string(), z.unknown())
  .describe('MIME type to value: text as it is, binary as base64, JSON as JSON.')
  .meta({ examples: [{ 'text/plain': '2' }] })
const failure = { name: z.string(), message: z.string(), traceback: z.string() }

export const runResultSchema = z
  .strictObject({
    runId: runIdField,
    stdout: z.string(),
    stderr: z.string(),
    exitCode: z.int(),
    results: z.array(resultData),
    error: z.strictObject(failure).optional().describe('The exception that the code raised.'),
    durationMs: z.number(),
    timedOut: z.boolean().optional(),
    interrupted: z.boolean().optional(),
    contextRestarted: z
      .string()
      .optional()
      .describe('Why the kernel was replaced before or during this run. Its variables are lost.'),
    outOfMemory: z
      .string()
      .optional()
      .describe(
        'Linux killed a process of this run because the sandbox reached its memory limit: the limit, the peak, and how to raise the limit.',
      ),
    truncated: z
      .strictObject({ stdoutBytes: z.int(), stderrBytes: z.int(), resultBytes: z.int() })
      .optional()
      .describe('Bytes that are missing in the fields above. The events have more.'),
  })
  .meta({
    id: 'RunResult',
    examples: [
      {
        runId: 'run-k3v9x2m4p7q8r5t6',
        stdout: '',
        stderr: '',
        exitCode: 0,
        results: [{ 'text/plain': '2' }],
        durationMs: 1.2,
      },
    ],
  })

const seq = z.int().min(0).describe('Counts from 0.')

export const runEventSchema = z
  .discriminatedUnion('type', [
    z.strictObject({
      seq,
      type: z.literal('start'),
      runId: runIdField,
      context: z.string(),
      language: languageField.optional(),
      contextRestarted: z.string().optional(),
    }),
    z.strictObject({
      seq,
      type: z.enum(['stdout', 'stderr']),
      data: z.string(),
      between: z.boolean().optional(),
    }),
    z.strictObject({ seq, type: z.literal('result'), data: resultData, main: z.boolean().optional() }),
    z
      .strictObject({
        seq,
        type: z.literal('input'),
        prompt: z.string(),
        hidden: z.boolean().optional().describe('Do not show what is typed, as for a password.'),
      })
      .describe('The code waits for an answer to `input()`. Only in runs with `input: true`.'),
    z.strictObject({ seq, type: z.literal('error'), ...failure }),
    z.strictObject({ seq, type: z.literal('truncated'), events: z.int(), bytes: z.int() }),
    z.strictObject({
      seq,
      type: z.literal('exit'),
      exitCode: z.int(),
      durationMs: z.number(),
      timedOut: z.boolean().optional(),
      interrupted: z.boolean().optional(),
      contextRestarted: z.boolean().optional(),
      signal: z.string().optional(),
      outOfMemory: z.string().optional(),
    }),
    z
      .strictObject({ type: z.literal('failed'), error: errorSchema.shape.error })
      .describe('The stream ended before the run. Follow it again with `after`.'),
  ])
  .meta({ id: 'RunEvent', examples: [{ seq: 1, type: 'stdout', data: 'hello\n' }] })

const runViewSchema = z
  .strictObject({
    runId: runIdField,
    sandboxId: sandboxIdField,
    context: z.string(),
    language: languageField,
    state: z.enum(['queued', 'running', 'finished', 'lost']),
    startedAt: timestampField,
    finishedAt: timestampField.optional(),
    exitCode: z.int().optional(),
    code: z
      .string()
      .optional()
      .describe(`The code, or its first ${KEPT_CODE_MAX_BYTES} bytes. Runs of older servers have none.`),
    isCodeCut: z.boolean().optional().describe('`code` is only the beginning.'),
  })
  .meta({
    id: 'Run',
    examples: [
      {
        runId: 'run-k3v9x2m4p7q8r5t6',
        sandboxId: 'sb-k3v9x2m4p7q8r5t6',
        context: 'default',
        language: 'python',
        state: 'running',
        startedAt: '2026-01-01T12:00:00.000Z',
        code: 'import time; time.sleep(60)',
      },
    ],
  })

export const runWithResultSchema = runViewSchema
  .extend({ result: runResultSchema.optional().describe('Present once the run is `finished`.') })
  .meta({ id: 'RunWithResult' })

export const runPageSchema = pageOf(runViewSchema).meta({ id: 'RunPage' })
export const listRunsQuery = z.strictObject(pageQuery)

export const runParams = z.strictObject({ id: sandboxRefField, runId: runIdField })

/** Query parameters of every route that replays a journal. */
export const eventsQuery = z.strictObject({
  after: integerTextOr(-1, { min: -1, max: Number.MAX_SAFE_INTEGER }).describe(
    'Only events after this `seq`.',
  ),
  follow: booleanTextOr(true).describe('`false`: only the events that exist now.'),
})
export const eventsHeaders = z.looseObject({
  'last-event-id': integerText({ min: 0, max: Number.MAX_SAFE_INTEGER })
    .exactOptional()
    .describe('For SSE. Takes precedence over `after`. Browsers send it when they reconnect.'),
})

export const interruptAnswerSchema = z
  .strictObject({
    outcome: z
      .enum(['interrupting', 'cancelled', 'finished'])
      .describe('`cancelled`: the run had not begun. `finished`: the run had already ended.'),
  })
  .meta({ id: 'Interrupted', examples: [{ outcome: 'interrupting' }] })

export const runInputSchema = z
  .strictObject({
    seq: z.int().min(0).describe('The `seq` of the `input` event that this answers.'),
    text: textField({ maxBytes: RUN_INPUT_MAX_BYTES })
      .exactOptional()
      .describe('What `input()` returns. Without it the input ends: the code gets an EOFError.'),
  })
  .meta({ id: 'InputAnswer', examples: [{ seq: 3, text: 'Ada' }] })

export type RunBody = z.input<typeof runSchema>
export type RunOnceBody = z.input<typeof runOnceSchema>
export type RunResultAnswer = z.output<typeof runResultSchema>
export type RunEventAnswer = z.output<typeof runEventSchema>
export type RunAnswer = z.output<typeof runViewSchema>
export type RunWithResultAnswer = z.output<typeof runWithResultSchema>
export type RunPageAnswer = z.output<typeof runPageSchema>
export type InterruptAnswer = z.output<typeof interruptAnswerSchema>
