import { z } from 'zod'
import { RUN_TIMEOUT_MAX_MS } from '../limits.ts'
import { booleanTextOr, integerTextOr, textField, timestampField } from './fields.ts'
import { pathField, userField } from './files.ts'
import { envField } from './sandboxes.ts'

/** The longest argument that Linux accepts. */
const ARGUMENT_MAX_BYTES = 128 * 1024 - 1
const ARGUMENTS_MAX = 4096
const TERMINAL_MAX_SIZE = 65_535
const PROCESS_ID = /^pr-[2-9a-km-np-z]{16}$/
const PROCESS_OR_PID = /^(pr-[2-9a-km-np-z]{16}|[1-9][0-9]{0,9})$/

const processIdField = z
  .string()
  .regex(PROCESS_ID, 'is not the id of a process')
  .describe('Names the process for good. Pids start again after a sleep.')
/** In a path. */
export const processText = z
  .string()
  .regex(PROCESS_OR_PID, 'is not the id of a process')
  .describe('`processId`, or the `pid` of a process that runs now.')

const sizeField = z.int().min(1).max(TERMINAL_MAX_SIZE)
export const terminalSizeSchema = z
  .strictObject({ cols: sizeField, rows: sizeField })
  .meta({ id: 'TerminalSize', examples: [{ cols: 120, rows: 40 }] })

const commandField = textField({ maxBytes: ARGUMENT_MAX_BYTES, minLength: 1 }).describe(
  'A command line for `bash -c`.',
)

export const startProcessSchema = z
  .strictObject({
    command: commandField.exactOptional(),
    args: z
      .array(textField({ maxBytes: ARGUMENT_MAX_BYTES }))
      .min(1)
      .max(ARGUMENTS_MAX)
      .refine((args) => args[0] !== '', { error: 'must begin with the name of a program', path: [0] })
      .exactOptional()
      .describe('A program and its arguments, without a shell.'),
    cwd: pathField.exactOptional(),
    env: envField.exactOptional(),
    user: userField.exactOptional(),
    stdin: z
      .boolean()
      .exactOptional()
      .describe('Keep stdin open, so that it can be written to. Default: stdin is empty.'),
    timeoutMs: z.int().min(1).max(RUN_TIMEOUT_MAX_MS).exactOptional(),
    pty: terminalSizeSchema.exactOptional().describe('Start the process in a terminal of this size.'),
    keepAwake: z
      .boolean()
      .exactOptional()
      .describe(
        'Whether the process, and what it starts, keeps the sandbox awake until it ends. Default: true. It sleeps and wakes with the sandbox in any case. `false` sets `DORMOUSE_KEEP_AWAKE=0` in its environment.',
      ),
    wait: z.boolean().default(false).describe('Respond when the process has ended, with its output.'),
  })
  .refine(({ command, args }) => (command === undefined) !== (args === undefined), {
    error: 'give either `command` or `args`',
    path: ['command'],
  })
  .meta({
    id: 'StartProcess',
    examples: [{ command: 'pip list | head -3', wait: true }, { args: ['python3', '-m', 'http.server'] }],
  })

export const processSchema = z
  .strictObject({
    processId: processIdField,
    pid: z.int(),
    command: z.string(),
    user: z.string(),
    state: z.enum(['running', 'exited']),
    exitCode: z.int().optional(),
    startedAt: timestampField,
    pty: z.boolean(),
  })
  .meta({
    id: 'Process',
    examples: [
      {
        processId: 'pr-k3v9x2m4p7q8r5t6',
        pid: 31,
        command: 'python3 -m http.server',
        user: 'root',
        state: 'running',
        startedAt: '2026-01-01T12:00:00.000Z',
        pty: false,
      },
    ],
  })

export const processListSchema = z
  .strictObject({ items: z.array(processSchema).readonly() })
  .meta({ id: 'ProcessList' })

export const processResultSchema = z
  .strictObject({
    processId: processIdField,
    pid: z.int(),
    stdout: z.string(),
    stderr: z.string(),
    exitCode: z.int(),
    durationMs: z.number(),
    timedOut: z.boolean().optional(),
    signal: z.string().optional().describe('The signal that ended the process, such as `SIGKILL`.'),
    outOfMemory: z
      .string()
      .optional()
      .describe(
        'Linux killed the process because the sandbox reached its memory limit: the limit, the peak, and how to raise the limit.',
      ),
    truncated: z
      .strictObject({ stdoutBytes: z.int(), stderrBytes: z.int() })
      .optional()
      .describe('Bytes that are missing in the middle of long output.'),
  })
  .meta({
    id: 'ProcessResult',
    examples: [
      {
        processId: 'pr-k3v9x2m4p7q8r5t6',
        pid: 31,
        stdout: 'hello\n',
        stderr: '',
        exitCode: 0,
        durationMs: 3.2,
      },
    ],
  })

export const processEventSchema = z
  .discriminatedUnion('type', [
    z.strictObject({ seq: z.int(), type: z.literal('start'), processId: processIdField, pid: z.int() }),
    z.strictObject({ seq: z.int(), type: z.enum(['stdout', 'stderr']), data: z.string() }),
    z.strictObject({
      seq: z.int(),
      type: z.literal('truncated'),
      events: z.int(),
      bytes: z.int(),
    }),
    z.strictObject({
      seq: z.int(),
      type: z.literal('exit'),
      exitCode: z.int(),
      durationMs: z.number(),
      timedOut: z.boolean().optional(),
      signal: z.string().optional(),
      outOfMemory: z.string().optional(),
    }),
  ])
  .meta({ id: 'ProcessEvent', examples: [{ seq: 1, type: 'stdout', data: 'hello\n' }] })

export const signalProcessSchema = z
  .strictObject({
    signal: z.string().regex(/^SIG[A-Z0-9+-]{1,13}$/, 'must be the name of a signal, such as SIGTERM'),
  })
  .meta({ id: 'SignalProcess', examples: [{ signal: 'SIGTERM' }] })

export const writeStdinQuery = z.strictObject({
  close: booleanTextOr(true).describe(
    '`false`: keep stdin open for more. Closing the stdin of a terminal types Ctrl-D.',
  ),
})

export const stdinAnswerSchema = z
  .strictObject({ bytes: z.int().describe('Bytes written to the stdin of the process.') })
  .meta({ id: 'StdinTaken', examples: [{ bytes: 6 }] })

const sizeRange = { min: 1, max: TERMINAL_MAX_SIZE }
const TERMINAL_COLS = 80
const TERMINAL_ROWS = 24

export const openTerminalQuery = z.strictObject({
  cols: integerTextOr(TERMINAL_COLS, sizeRange),
  rows: integerTextOr(TERMINAL_ROWS, sizeRange),
  command: commandField.exactOptional().describe('The command to run. Default: an interactive shell.'),
  user: userField.exactOptional(),
  cwd: pathField.exactOptional(),
})

export const attachTerminalQuery = z.strictObject({
  after: integerTextOr(-1, { min: -1, max: Number.MAX_SAFE_INTEGER }).describe(
    'Replay output after this `seq`. Default: all output that is still held.',
  ),
})

/** Control messages of a client, beside the bytes that it types. */
export const terminalControlSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('resize'), cols: sizeField, rows: sizeField }),
  signalProcessSchema.extend({ type: z.literal('signal') }),
])

export type StartProcessBody = z.input<typeof startProcessSchema>
export type ProcessAnswer = z.output<typeof processSchema>
export type ProcessListAnswer = z.output<typeof processListSchema>
export type ProcessResultAnswer = z.output<typeof processResultSchema>
export type ProcessEventAnswer = z.output<typeof processEventSchema>
