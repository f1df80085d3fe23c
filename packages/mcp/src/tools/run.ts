import { z } from 'zod'
import { boundedOutput } from '../bounded-output.ts'
import { noteOutput, sandboxInput, timeoutInput } from '../fields.ts'
import { runAnswer, runOutput } from '../run-answer.ts'
import { defineTool } from '../tool.ts'

export const runPython = defineTool({
  name: 'run_python',
  title: 'Run Python',
  description: `Run Python code in a REPL that remembers: variables, imports, open files and threads of earlier calls are still there, also days later. \
Load data once and build on it in later calls; do not repeat earlier code. numpy, pandas and matplotlib are installed. \
Returns stdout, stderr, the value of the last expression, plots as images, and the traceback if it raised (the variables stay).`,
  input: z.strictObject({
    code: z.string().describe('As in a notebook cell; the value of the last expression is returned.'),
    sandbox: sandboxInput,
    context: z
      .string()
      .optional()
      .describe(
        'Another REPL of the same sandbox, with variables of its own. It must exist; usually not given.',
      ),
    timeoutMs: timeoutInput,
  }),
  output: runOutput,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ code, sandbox: named, context, timeoutMs }, { conversation, signal, say }) => {
    const { sandbox, note } = await conversation.sandbox(named, signal)
    const run = await sandbox.runCode(code, { context, timeoutMs, signal, onStdout: say, onStderr: say })
    return runAnswer(run, { sandbox, note })
  },
})

export const runShell = defineTool({
  name: 'run_shell',
  title: 'Run a shell command',
  description: `Run a bash command in the sandbox, beside its Python REPL. Files and processes that it leaves stay; the working directory and variables of the shell do not \
(give \`cwd\`, or use \`cd dir && …\`). For something that goes on in the background: \`nohup COMMAND > log 2>&1 &\`. \
Returns stdout, stderr and the exit code; one other than 0 is no tool error.`,
  input: z.strictObject({
    command: z.string().describe('For `bash -c`.'),
    sandbox: sandboxInput,
    cwd: z.string().optional().describe('Working directory; the home of the user if not given.'),
    stdin: z.string().optional().describe('What the command reads; nothing if not given.'),
    timeoutMs: timeoutInput,
  }),
  output: z.object({
    sandbox: z.string().describe('Where it ran.'),
    stdout: z.string(),
    stderr: z.string(),
    exitCode: z.int(),
    signal: z.string().optional().describe('The signal that ended it.'),
    timedOut: z.boolean().optional(),
    durationMs: z.number(),
    note: noteOutput,
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ command, sandbox: named, cwd, stdin, timeoutMs }, { conversation, signal, say }) => {
    const { sandbox, note } = await conversation.sandbox(named, signal)
    const options = { cwd, timeoutMs, input: stdin, signal, onStdout: say, onStderr: say }
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

/** The SDK's options are absent or have a value. */
function withoutUndefined<Options extends object>(
  options: Options,
): { [Name in keyof Options]: Exclude<Options[Name], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as { [Name in keyof Options]: Exclude<Options[Name], undefined> }
}
