import { z } from 'zod'
import { boundedOutput } from '../bounded-output.ts'
import { noteOutput, sandboxInput, timeoutInput } from '../fields.ts'
import { runAnswer, runOutput } from '../run-answer.ts'
import { defineTool } from '../tool.ts'

export const runPython = defineTool({
  name: 'run_python',
  title: 'Run Python',
  description: `Run Python code in a REPL that keeps its state: variables, imports, open files and threads of earlier calls \
are still there, even days later. Load data once and use it in later calls. Do not repeat earlier code. numpy, pandas and \
matplotlib are installed. Returns stdout, stderr, the value of the last expression, plots as images, and the traceback of \
an exception (the variables stay).`,
  input: z.strictObject({
    code: z.string().describe('As in a notebook cell. Returns the value of the last expression.'),
    sandbox: sandboxInput,
    context: z
      .string()
      .optional()
      .describe(
        'Another REPL of the sandbox, with its own variables. It must exist. Usually leave this out.',
      ),
    timeoutMs: timeoutInput,
  }),
  output: runOutput,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ code, sandbox: named, context, timeoutMs }, { conversation, signal, onOutput }) => {
    const { sandbox, note } = await conversation.sandbox(named, signal)
    const run = await sandbox.runCode(code, {
      context,
      timeoutMs,
      signal,
      onStdout: onOutput,
      onStderr: onOutput,
    })
    return runAnswer(run, { sandbox, note })
  },
})

export const runShell = defineTool({
  name: 'run_shell',
  title: 'Run a shell command',
  description: `Run a bash command in the sandbox. Files and background processes stay; the working directory and shell \
variables do not (give \`cwd\`, or use \`cd dir && …\`). Start background work with \`nohup COMMAND > log 2>&1 &\`. \
Returns stdout, stderr and the exit code. An exit code other than 0 is not a tool error.`,
  input: z.strictObject({
    command: z.string().describe('For `bash -c`.'),
    sandbox: sandboxInput,
    cwd: z.string().optional().describe('Working directory. Default: the home directory.'),
    stdin: z.string().optional().describe('Input of the command. Default: empty.'),
    timeoutMs: timeoutInput,
  }),
  output: z.object({
    sandbox: z.string().describe('The sandbox that it ran in.'),
    stdout: z.string(),
    stderr: z.string(),
    exitCode: z.int(),
    signal: z.string().optional().describe('The signal that ended it.'),
    timedOut: z.boolean().optional(),
    durationMs: z.number(),
    note: noteOutput,
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ command, sandbox: named, cwd, stdin, timeoutMs }, { conversation, signal, onOutput }) => {
    const { sandbox, note } = await conversation.sandbox(named, signal)
    const options = { cwd, timeoutMs, input: stdin, signal, onStdout: onOutput, onStderr: onOutput }
    const result = await sandbox.commands.run(command, withoutUndefined(options))
    const { exitCode, timedOut, durationMs } = result
    const stdout = boundedOutput(result.stdout)
    const stderr = boundedOutput(result.stderr)
    const parts = [
      note && `[${note}]`,
      stdout,
      stderr && `[stderr]\n${stderr}`,
      timedOut && '[timed out]',
      exitCode !== 0 && `[exit code ${exitCode}]`,
    ].filter((part): part is string => typeof part === 'string' && part !== '')
    const text = parts.map((part) => part.replace(/\n$/, '')).join('\n') || '[no output]'
    return {
      structured: {
        sandbox: sandbox.name ?? sandbox.id,
        ...{ stdout, stderr, exitCode, signal: result.signal, timedOut, durationMs, note },
      },
      content: [{ type: 'text', text }],
    }
  },
})

/** The types of the SDK allow absent options, but not undefined ones. */
function withoutUndefined<Options extends object>(
  options: Options,
): { [Name in keyof Options]: Exclude<Options[Name], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as { [Name in keyof Options]: Exclude<Options[Name], undefined> }
}
