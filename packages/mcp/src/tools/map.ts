import { setTimeout as sleep } from 'node:timers/promises'
import { type Dormouse, DormouseError, type Job, type Task } from 'dormouse'
import { z } from 'zod'
import { sandboxInput, timeoutInput, waitInput } from '../fields.ts'
import { MAP_RESULT_CHARACTERS, MAP_TASKS_SHOWN_MAX, WAIT_DEFAULT_MS } from '../limits.ts'
import { defineTool, type ToolAnswer } from '../tool.ts'

const mapOutput = z.object({
  job: z.string(),
  state: z.string(),
  total: z.int(),
  succeeded: z.int(),
  failed: z.int(),
  results: z
    .array(z.object({ index: z.int(), state: z.string(), result: z.string().optional() }))
    .describe('Of tasks that have ended, by the index of their input.'),
})

export const mapInputs = defineTool({
  name: 'map_inputs',
  title: 'Run code over many inputs',
  description: `Run Python code once for each of many inputs, several at a time, each in its own fork of the sandbox, and \
delete the forks. The code sees all variables and files of the sandbox and its input in \`item\`; what it changes is \
lost, so return a result as the last expression or print it. The sandbox does not change. Use it for hundreds of \
independent pieces of work. It continues if it takes longer than \`waitMs\`: call again with \`job\`. Returns results by index.`,
  input: z.strictObject({
    code: z.string().min(1).optional().describe('Finds its input in `item`.'),
    inputs: z.array(z.unknown()).min(1).max(10_000).optional().describe('Any JSON. One task for each.'),
    concurrency: z.int().min(1).max(64).optional().describe('How many at once. Default: 4.'),
    retries: z.int().min(0).max(20).optional().describe('How often a failed task runs again. Default: 0.'),
    sandbox: sandboxInput,
    job: z.string().min(1).optional().describe('The id of an earlier job, instead of code and inputs.'),
    after: z.int().min(-1).optional().describe('With `job`: only results with a higher index.'),
    timeoutMs: timeoutInput,
    waitMs: waitInput,
  }),
  output: mapOutput,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ code, inputs, job: earlier, sandbox: named, waitMs = WAIT_DEFAULT_MS, ...how }, call) => {
    const { conversation, signal } = call
    const { client } = conversation
    let id = earlier
    if (id === undefined) {
      if (code === undefined || inputs === undefined)
        throw new DormouseError('invalid_argument', 'Give `code` and `inputs`, or `job`.')
      const { sandbox } = await conversation.sandbox(named, signal)
      const { concurrency, retries = 0, timeoutMs } = how
      const job = await client.jobs.create(
        {
          ...{ code, inputs, sandbox: sandbox.id, retry: { retries } },
          ...(concurrency !== undefined && { concurrency }),
          ...(timeoutMs !== undefined && { timeoutMs }),
        },
        { signal },
      )
      id = job.id
    }
    return answerOf(client, await waitFor(client, id, { waitMs, signal }), how.after ?? -1, signal)
  },
})

async function waitFor(
  client: Dormouse,
  id: string,
  { waitMs, signal }: { waitMs: number; signal: AbortSignal },
): Promise<Job> {
  const over = new AbortController()
  const both = AbortSignal.any([signal, over.signal])
  const waited = sleep(waitMs, undefined, { signal: both }).catch(() => {})
  try {
    await Promise.race([client.jobs.wait(id, { signal: both }), waited])
  } finally {
    over.abort()
  }
  return client.jobs.get(id, { signal })
}

async function answerOf(
  client: Dormouse,
  { id, state, total, tasks }: Job,
  after: number,
  signal: AbortSignal,
): Promise<ToolAnswer<z.input<typeof mapOutput>>> {
  const results: { index: number; state: string; result?: string }[] = []
  for await (const task of client.jobs.tasks(id, { signal })) {
    if (task.index <= after || task.finishedAt === undefined) continue
    results.push({ index: task.index, state: task.state, result: shown(task) })
    if (results.length === MAP_TASKS_SHOWN_MAX) break
  }
  const { succeeded, failed } = tasks
  return { structured: { job: id, state, total, succeeded, failed, results } }
}

function shown({ message, result }: Task): string {
  const text = message ?? [result?.stdout ?? '', result?.text ?? ''].join('')
  return text.length > MAP_RESULT_CHARACTERS ? `${text.slice(0, MAP_RESULT_CHARACTERS)}…` : text
}
