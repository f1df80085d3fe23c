// Measures jobs of `x * x`: tasks per second with a fork for each task and with workers, beside a plain process pool.
import { execFileSync } from 'node:child_process'
import { cpus } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { ms, report, summarize, table } from './measure.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({ count: { type: 'string' }, 'at-once': { type: 'string' } })
const COUNT = Number(options.count ?? (options.quick ? 50 : 1000))
const AT_ONCE = Number(options['at-once'] ?? cpus().length)
const POLL_MS = 50

await atServer(options, async ({ client }) => {
  const parent = await client.create()
  await client.run(parent.id, 'import math')
  const forks = await measureJob(client, { sandbox: parent.id, sandboxPer: 'task' })
  const moreForks = await measureJob(client, {
    ...{ sandbox: parent.id, sandboxPer: 'task', concurrency: 2 * AT_ONCE },
  })
  const workers = await measureJob(client, { sandbox: parent.id, sandboxPer: 'worker' })
  const pools = { fresh: measurePool(1), kept: measurePool(0) }
  const result = { count: COUNT, atOnce: AT_ONCE, forks, moreForks, workers, pools }
  await report({ name: 'jobs', options, result, text: describe(result) })
})

/** Tasks per second, from the first start to the last end by the server's own records, and how long each one took. */
async function measureJob(client, how) {
  const inputs = Array.from({ length: COUNT }, (_, index) => index)
  const body = { code: 'item * item', inputs, concurrency: AT_ONCE, ...how }
  const { id } = await client.call('POST', '/v1/jobs', body)
  for (;;) {
    const job = await client.call('GET', `/v1/jobs/${id}`)
    if (job.finishedAt === undefined) await sleep(POLL_MS)
    else if (job.tasks.succeeded !== COUNT) throw new Error(`${COUNT - job.tasks.succeeded} tasks failed`)
    else return { perSecond: (COUNT * 1000) / elapsedMs(job), task: summarize(await taskTimes(client, id)) }
  }
}

async function taskTimes(client, id) {
  const times = []
  let cursor
  do {
    const page = await client.call(
      'GET',
      `/v1/jobs/${id}/tasks?limit=1000${cursor ? `&cursor=${cursor}` : ''}`,
    )
    times.push(...page.items.map(elapsedMs))
    cursor = page.nextCursor
  } while (cursor)
  return times
}

function elapsedMs({ startedAt, finishedAt }) {
  return Date.parse(finishedAt) - Date.parse(startedAt)
}

/**
 * The same on the host, without isolation: a process for each task, or processes that are kept. Then one task at a
 * time, from the call to the result.
 */
function measurePool(tasksPerProcess) {
  const code = `
import json, multiprocessing, time
def square(x): return x * x
if __name__ == '__main__':
    with multiprocessing.Pool(${AT_ONCE}, maxtasksperchild=${tasksPerProcess || 'None'}) as pool:
        began = time.perf_counter()
        assert len(pool.map(square, range(${COUNT}), chunksize=1)) == ${COUNT}
        took = time.perf_counter() - began
        samples = []
        for x in range(min(${COUNT}, 500)):
            began = time.perf_counter(); pool.apply(square, (x,)); samples.append((time.perf_counter() - began) * 1e3)
    print(json.dumps({'perSecond': ${COUNT} / took, 'samples': samples}))
`
  const { perSecond, samples } = JSON.parse(execFileSync('python3', ['-c', code], { encoding: 'utf8' }))
  return { perSecond, task: summarize(samples) }
}

function describe({ count, atOnce, forks, moreForks, workers, pools }) {
  const row = (title, { perSecond, task }) => [title, perSecond.toFixed(1), ms(task.p50), ms(task.p99)]
  const rows = [
    row('job, a fork for each task', forks),
    row(`job, a fork for each task, ${2 * atOnce} at a time`, moreForks),
    row('job, workers', workers),
    row('process pool of Python, a process for each task', pools.fresh),
    row('process pool of Python, processes that are kept', pools.kept),
  ]
  return `${count} tasks of \`x * x\`, ${atOnce} at a time. The time of a task of a job is that of the server's records, in whole milliseconds; that of the pools is measured with one task at a time.\n\n${table(['how', 'tasks/s', 'a task, p50 ms', 'p99 ms'], rows)}`
}
