// Measures jobs of `x * x`: tasks per second with a fork for each task and with workers, beside a plain process pool.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Layout } from '../packages/engine-linux/dist/host/layout.js'
import { report, table } from './measure.mjs'
import { clientOf } from './server/client.mjs'
import { startServer } from './server/start-server.mjs'
import { readOptions, removeState } from './workbench.mjs'

const options = readOptions({ count: { type: 'string' }, 'at-once': { type: 'string' } })
const COUNT = Number(options.count ?? (options.quick ? 50 : 1000))
const AT_ONCE = Number(options['at-once'] ?? cpus().length)
const POLL_MS = 50

const stateDir = await mkdtemp(join(options.data, 'bench-'))
const server = await startServer(stateDir, options.data)
try {
  const client = clientOf(server)
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
  client.close()
} finally {
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')
  await removeState({ dataDir: options.data, stateDir, layout: new Layout(stateDir, options.data) })
}

/** Tasks per second, from the first start to the last end by the server's own records. */
async function measureJob(client, how) {
  const inputs = Array.from({ length: COUNT }, (_, index) => index)
  const body = { code: 'item * item', inputs, concurrency: AT_ONCE, ...how }
  const { id } = await client.call('POST', '/v1/jobs', body)
  for (;;) {
    const job = await client.call('GET', `/v1/jobs/${id}`)
    if (job.finishedAt === undefined) await sleep(POLL_MS)
    else if (job.tasks.succeeded !== COUNT) throw new Error(`${COUNT - job.tasks.succeeded} tasks failed`)
    else return COUNT / ((Date.parse(job.finishedAt) - Date.parse(job.startedAt)) / 1000)
  }
}

/** The same on the host, without isolation: a process for each task, or processes that are kept. */
function measurePool(tasksPerProcess) {
  const code = `
import multiprocessing, time
def square(x): return x * x
if __name__ == '__main__':
    began = time.perf_counter()
    with multiprocessing.Pool(${AT_ONCE}, maxtasksperchild=${tasksPerProcess || 'None'}) as pool:
        assert len(pool.map(square, range(${COUNT}), chunksize=1)) == ${COUNT}
    print(${COUNT} / (time.perf_counter() - began))
`
  return Number(execFileSync('python3', ['-c', code], { encoding: 'utf8' }))
}

function describe({ count, atOnce, forks, moreForks, workers, pools }) {
  const rows = [
    ['job, a fork for each task', forks.toFixed(1)],
    [`job, a fork for each task, ${2 * atOnce} at a time`, moreForks.toFixed(1)],
    ['job, workers', workers.toFixed(1)],
    ['process pool of Python, a process for each task', pools.fresh.toFixed(1)],
    ['process pool of Python, processes that are kept', pools.kept.toFixed(1)],
  ]
  return `${count} tasks of \`x * x\`, ${atOnce} at a time.\n\n${table(['how', 'tasks/s'], rows)}`
}
