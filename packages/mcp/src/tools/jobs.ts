import { DormouseError, type Job } from 'dormouse'
import { z } from 'zod'
import { JOBS_LISTED_MAX } from '../limits.ts'
import { defineTool } from '../tool.ts'

const jobOutput = z.object({
  job: z.string(),
  name: z.string().optional(),
  state: z.string().describe('`queued`, `running`, `cancelling`, `finished` or `cancelled`.'),
  createdAt: z.string(),
  total: z.int(),
  succeeded: z.int(),
  failed: z.int(),
})

export const jobs = defineTool({
  name: 'jobs',
  title: 'List or cancel jobs',
  description: `List the jobs of this key, newest first, or cancel one. map_inputs starts jobs, and returns the results of one \
by its id. Use the list to find a job of an earlier conversation. Cancelling ends the tasks that run, starts no others, and \
keeps results so far. Returns the jobs.`,
  input: z.strictObject({
    action: z.enum(['list', 'cancel']).describe('What to do.'),
    job: z.string().min(1).optional().describe('The id of the job. Required to cancel.'),
    cursor: z.string().min(1).optional().describe('For `list`: `nextCursor` of the previous result.'),
  }),
  output: z.object({
    jobs: z.array(jobOutput),
    nextCursor: z.string().optional().describe('There are more: call again with this `cursor`.'),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  call: async ({ action, job: id, cursor }, { conversation, signal }) => {
    const { client } = conversation
    if (action === 'list') {
      const page = await client.jobs.list({ signal }).page({ limit: JOBS_LISTED_MAX, cursor })
      return { structured: { jobs: page.items.map(describe), nextCursor: page.nextCursor } }
    }
    if (id === undefined) throw new DormouseError('invalid_argument', 'job: is required to cancel a job')
    return { structured: { jobs: [describe(await client.jobs.cancel(id, { signal }))] } }
  },
})

function describe({ id, name, state, createdAt, total, tasks }: Job): z.input<typeof jobOutput> {
  return { job: id, name, state, createdAt, total, succeeded: tasks.succeeded, failed: tasks.failed }
}
