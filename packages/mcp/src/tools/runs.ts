import { DormouseError, type Sandbox } from 'dormouse'
import { z } from 'zod'
import type { Conversation } from '../conversation.ts'
import { sandboxInput } from '../fields.ts'
import { TIMEOUT_MAX_MS, WAIT_DEFAULT_MS } from '../limits.ts'
import { awaitRun } from '../runs/await-run.ts'
import { runFields } from '../runs/run-answer.ts'
import { codeRun, findToolRun, type ToolRun } from '../runs/tool-run.ts'
import { defineTool } from '../tool.ts'

const runInput = z.string().min(1).describe('`run` of an earlier result.')

export const getRun = defineTool({
  name: 'get_run',
  title: 'Get a run',
  description: `Get the output, state and result of code or a command that run_python or run_shell started. Waits for its \
end, but at most \`waitMs\`. Use it for runs that continue in the background, and after a call that timed out.`,
  input: z.strictObject({
    run: runInput.optional().describe('`run` of an earlier result. Default: the last run.'),
    after: z
      .int()
      .min(-1)
      .optional()
      .describe('`lastEvent` of an earlier result: returns only later output. Default: all output.'),
    waitMs: z
      .int()
      .min(0)
      .max(TIMEOUT_MAX_MS)
      .optional()
      .describe(`The most milliseconds to wait for its end. Default: ${WAIT_DEFAULT_MS}.`),
    sandbox: sandboxInput,
  }),
  output: runFields,
  annotations: { readOnlyHint: true },
  call: async ({ run: id, after, waitMs = WAIT_DEFAULT_MS, sandbox: named }, call) => {
    const { conversation, signal } = call
    const { sandbox, note } = await conversation.sandbox(named, signal)
    const run =
      id === undefined ? await lastRun(conversation, sandbox, signal) : await findToolRun(sandbox, id, signal)
    if (conversation.cutOff === run) conversation.cutOff = undefined
    const status = await run.status(signal)
    return awaitRun(run, { ...call, endedBy: () => 'timeout', sandbox, waitMs, after, status, note })
  },
})

export const cancelRun = defineTool({
  name: 'cancel_run',
  title: 'Cancel a run',
  description: `Stop code or a command that run_python or run_shell started. Code gets KeyboardInterrupt, and the variables \
stay. A command is killed. Returns whether it still ran.`,
  input: z.strictObject({ run: runInput, sandbox: sandboxInput }),
  output: z.object({
    run: z.string(),
    stopped: z.boolean().describe('False if it had already ended.'),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  call: async ({ run: id, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const run = await findToolRun(sandbox, id, signal)
    return { structured: { run: id, stopped: await run.stop() } }
  },
})

async function lastRun(conversation: Conversation, sandbox: Sandbox, signal: AbortSignal): Promise<ToolRun> {
  const known = conversation.lastRun
  if (known?.sandboxId === sandbox.id) return known.run
  const [newest] = (await sandbox.runs.list({ signal }).page({ limit: 1 })).items
  if (newest !== undefined) return codeRun(sandbox, newest.runId)
  throw new DormouseError('not_found', 'run: nothing has run in this sandbox yet', {
    hint: 'Start something with run_python or run_shell.',
  })
}
