import { z } from 'zod'
import type { Conversation } from '../conversation.ts'
import { sandboxInput, timeoutInput, waitInput } from '../fields.ts'
import { WAIT_DEFAULT_MS } from '../limits.ts'
import { awaitRun } from '../runs/await-run.ts'
import { type RunFields, runFields } from '../runs/run-answer.ts'
import { type StartCode, startCode, startCommand } from '../runs/start-run.ts'
import type { ToolRun } from '../runs/tool-run.ts'
import { aboutInput, aboutTool } from '../shared-words.ts'
import { defineTool, type ToolAnswer, type ToolCall } from '../tool.ts'

export const runPython = defineTool({
  name: 'run_python',
  title: 'Run Python',
  description: `${aboutTool('run_python')} Code that runs longer than \`waitMs\` continues: fetch its end with get_run.`,
  input: z.strictObject({
    code: z.string().describe(aboutInput('run_python', 'code')),
    sandbox: sandboxInput,
    context: z
      .string()
      .min(1)
      .optional()
      .describe('Another REPL of the sandbox, made with `contexts`. Usually leave this out.'),
    timeoutMs: timeoutInput,
    waitMs: waitInput,
  }),
  output: runFields,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: ({ code, sandbox, context, timeoutMs, waitMs }, call) => {
    const what: StartCode = { code, context, timeoutMs }
    return startAndWait((found) => startCode(found, what), { sandbox, waitMs, call })
  },
})

export const runJavascript = defineTool({
  name: 'run_javascript',
  title: 'Run JavaScript',
  description: `Run JavaScript or TypeScript in a Node.js REPL that keeps its state, as run_python does for Python: variables, \
imports, timers and servers of earlier calls are still there. \`await\`, \`import\` and \`require\` work at the top, and \
\`let\` and \`const\` may be declared again. Returns what the code prints, the value of the last expression and the error. \
The sandbox needs Node.js, which the templates \`node\` and \`code\` have.`,
  input: z.strictObject({
    code: z.string().describe('Returns the value of the last expression.'),
    language: z.enum(['javascript', 'typescript']).optional().describe('Default: `javascript`.'),
    sandbox: sandboxInput,
    context: z.string().min(1).optional().describe('Another REPL of the sandbox. Usually leave this out.'),
    timeoutMs: timeoutInput,
    waitMs: waitInput,
  }),
  output: runFields,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: ({ code, language = 'javascript', sandbox, context, timeoutMs, waitMs }, call) => {
    const what: StartCode = { code, language, context, timeoutMs }
    return startAndWait((found) => startCode(found, what), { sandbox, waitMs, call })
  },
})

export const runShell = defineTool({
  name: 'run_shell',
  title: 'Run a shell command',
  description: `${aboutTool('run_shell')} An exit code other than 0 is not a tool error. A command that runs longer than \`waitMs\` continues: fetch its end with get_run. Background work can also \
be started with \`waitMs\` 0.`,
  input: z.strictObject({
    command: z.string().min(1).describe(aboutInput('run_shell', 'command')),
    sandbox: sandboxInput,
    cwd: z.string().min(1).optional().describe(aboutInput('run_shell', 'cwd')),
    stdin: z.string().optional().describe('Input of the command. Default: empty.'),
    timeoutMs: timeoutInput,
    waitMs: waitInput,
  }),
  output: runFields,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: ({ command, sandbox, cwd, stdin, timeoutMs, waitMs }, call) =>
    startAndWait((found) => startCommand(found, { command, cwd, stdin, timeoutMs }), {
      ...{ sandbox, waitMs, call },
    }),
})

interface StartOptions {
  readonly sandbox: string | undefined
  readonly waitMs: number | undefined
  readonly call: ToolCall
}

async function startAndWait(
  start: (sandbox: Awaited<ReturnType<Conversation['sandbox']>>['sandbox']) => Promise<ToolRun>,
  { sandbox: named, waitMs = WAIT_DEFAULT_MS, call }: StartOptions,
): Promise<ToolAnswer<RunFields>> {
  const { conversation, signal } = call
  const { sandbox, note } = await conversation.sandbox(named, signal)
  const cutOff = cutOffNote(conversation)
  const run = await start(sandbox)
  conversation.lastRun = { run, sandboxId: sandbox.id }
  const all = [note, cutOff].filter((text) => text !== undefined).join(' ')
  return awaitRun(run, { ...call, sandbox, waitMs, note: all === '' ? undefined : all })
}

/** Says once that a run continues although the client gave up waiting for it. */
function cutOffNote(conversation: Conversation): string | undefined {
  const run = conversation.cutOff
  if (run === undefined) return undefined
  conversation.cutOff = undefined
  return `An earlier call was cut off, but its run was not: fetch it with get_run, run "${run.id}".`
}
