import type { Job, Task } from 'dormouse'
import { formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

const BAR_CHARACTERS = 24

/** Shows a bar until the job has ended, then what came of it. Exit status 1 if a task failed. */
export async function followJob(call: Call, job: Job): Promise<number> {
  const { id, total } = job
  let failed = job.tasks.failed + job.tasks.cancelled
  let done = job.tasks.succeeded + failed
  using bar = call.progress(barOf(done, failed, total))
  let last = job
  for await (const event of call.client.jobs.events(id, { after: job.lastSeq, signal: call.signal })) {
    if (event.type === 'end') last = event.job
    else {
      done += 1
      if (event.task.state !== 'succeeded') failed += 1
      bar.update(barOf(done, failed, total))
    }
  }
  bar[Symbol.dispose]()
  call.printResult(last, `${last.id}\n`)
  call.note(`${summary(last)}. Results: \`dormouse job results ${last.id}\`.`)
  return last.tasks.succeeded === last.total ? 0 : 1
}

function barOf(done: number, failed: number, total: number): string {
  const filled = Math.floor((done / Math.max(1, total)) * BAR_CHARACTERS)
  const bar = `${'█'.repeat(filled)}${'░'.repeat(BAR_CHARACTERS - filled)}`
  return `${bar} ${done}/${total}${failed === 0 ? '' : `, ${failed} failed`}`
}

export async function listJobs(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const jobs = await call.client.jobs.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(jobs.map(({ id }) => ({ id })))
  const now = Date.now()
  const rows = jobs.map((job) => [
    job.id,
    job.name ?? '-',
    job.state,
    `${job.tasks.succeeded}/${job.total}`,
    String(job.tasks.failed),
    `${formatDistance(Date.parse(job.createdAt), now)} ago`,
  ])
  const header = ['JOB', 'NAME', 'STATE', 'SUCCEEDED', 'FAILED', 'CREATED']
  call.printResult({ jobs }, rows.length === 0 ? '' : formatTable([header, ...rows]))
  if (rows.length === 0)
    call.note("There are no jobs. Start one with `dormouse job run 'item * 2' --input 1`.")
}

export async function showJob(call: Call, id: string): Promise<void> {
  const job = await call.client.jobs.get(id, { signal: call.signal })
  const { template, snapshotId, sandboxId } = job.origin
  const fields = formatFields([
    ['id', job.id],
    ['name', job.name],
    ['state', job.state],
    ['tasks', summary(job)],
    ['from', sandboxId ?? snapshotId ?? template],
    ['isolation', job.isolation],
    ['a sandbox per', job.sandboxPer],
    ['concurrency', String(job.concurrency)],
    ['priority', String(job.priority)],
    ['retries', String(job.retry.retries)],
    ['created', job.createdAt],
    ['finished', job.finishedAt],
  ])
  call.printResult(job, fields)
}

export async function waitForJob(call: Call, id: string): Promise<number> {
  return followJob(call, await call.client.jobs.get(id, { signal: call.signal }))
}

type StateFlag = { state?: Task['state'] }

export async function showResults(call: Call, id: string, { state }: StateFlag): Promise<void> {
  const tasks = await tasksOf(call, id, state)
  const rows = tasks.map(({ index, state: is, attempts, message, result }) => [
    String(index),
    is,
    String(attempts),
    firstLine(message ?? result?.text ?? result?.stdout ?? ''),
  ])
  call.printResult({ tasks }, formatTable([['TASK', 'STATE', 'ATTEMPTS', 'RESULT'], ...rows]))
}

export async function showLogs(
  call: Call,
  id: string,
  index: string | undefined,
  { state }: StateFlag,
): Promise<void> {
  const tasks =
    index === undefined
      ? await tasksOf(call, id, state)
      : [await call.client.jobs.task(id, Number(index), { signal: call.signal })]
  const logs = tasks.map(({ index: task, result }) => ({
    ...{ task, stdout: result?.stdout ?? '', stderr: result?.stderr ?? '' },
    text: result?.text,
  }))
  const parts = logs.map(({ task, stdout, stderr, text }) => {
    const output = [stdout, stderr, text === undefined ? '' : `${text}\n`].join('')
    return index === undefined ? `── task ${task} ──\n${output}` : output
  })
  call.printResult({ logs }, parts.join(''))
}

export async function cancelJobs(call: Call, ids: readonly string[]): Promise<void> {
  const jobs: Job[] = []
  for (const id of ids) jobs.push(await call.client.jobs.cancel(id, { signal: call.signal }))
  call.printResult({ jobs }, jobs.map(({ id, state }) => `${id} ${state}\n`).join(''))
}

export async function removeJobs(call: Call, ids: readonly string[]): Promise<void> {
  for (const id of ids) await call.client.jobs.delete(id, { signal: call.signal })
  call.printResult({ deleted: ids }, ids.map((id) => `${id}\n`).join(''))
}

async function tasksOf(call: Call, id: string, state: Task['state'] | undefined): Promise<Task[]> {
  const tasks: Task[] = []
  for await (const task of call.client.jobs.tasks(id, { state, signal: call.signal })) tasks.push(task)
  return tasks
}

function summary({ tasks, total }: Job): string {
  const counts = Object.entries(tasks).filter(([, count]) => count > 0)
  return `${counts.map(([state, count]) => `${count} ${state}`).join(', ')} of ${total}`
}

function firstLine(text: string): string {
  return text.trimEnd().split('\n')[0] ?? ''
}
