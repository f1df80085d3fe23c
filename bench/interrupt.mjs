// Measures over HTTP how long a call waits that comes while an idle sandbox falls asleep, at random moments.
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Layout } from '../packages/engine-linux/dist/host/layout.js'
import { ms, report, summarize, timesTable } from './measure.mjs'
import { clientOf } from './server/client.mjs'
import { startServer } from './server/start-server.mjs'
import { readOptions, removeState } from './workbench.mjs'

const options = readOptions({ times: { type: 'string' } })
const TIMES = Number(options.times ?? (options.quick ? 12 : 120))
const HEAP_BYTES = 600e6
const IDLE_MS = 1000
/** The server looks twice a second, and a sleep takes about a second. */
const WINDOW_MS = 2000
const GOAL = { atMost: 80 }
/** A new array, so that all of it has to be saved again. */
const FILL = `import numpy; heap = numpy.random.default_rng().integers(0, 255, ${HEAP_BYTES}, dtype=numpy.uint8); total = int(heap.sum())`

const stateDir = await mkdtemp(join(options.data, 'bench-'))
const server = await startServer(stateDir, options.data)
try {
  const client = clientOf(server)
  const limits = { memoryBytes: 4 * 1024 ** 3, cpus: 2 }
  const { id } = await client.create({ idleTimeoutMs: IDLE_MS, limits })
  const result = await measure(client, id)
  await report({ name: 'interrupt', options, result, text: describe(result) })
  client.close()
} finally {
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')
  await removeState({ dataDir: options.data, stateDir, layout: new Layout(stateDir, options.data) })
}

async function measure(client, id) {
  const samples = { awake: [], kept: [], frozen: [] }
  const timed = async () => {
    const began = performance.now()
    const { stdout } = await client.run(id, 'print(int(heap[-1]) >= 0)')
    if (stdout.trim() !== 'True') throw new Error(`The answer is ${stdout}.`)
    return performance.now() - began
  }
  for (let i = 0; i < TIMES; i++) {
    if (i % 6 === 0) await client.run(id, FILL)
    samples.awake.push(await timed())
    const before = await slept(client, id)
    await sleep(IDLE_MS + Math.random() * WINDOW_MS)
    const took = await timed()
    samples[(await slept(client, id)) === before ? 'kept' : 'frozen'].push(took)
  }
  const check = await client.run(id, 'print(int(heap.sum()) == total)')
  if (check.stdout.trim() !== 'True') throw new Error('The memory has changed.')
  const all = [...samples.kept, ...samples.frozen]
  return {
    all: { ...summarize(all), goal: GOAL },
    kept: summarize(samples.kept),
    slept: summarize(samples.frozen),
    awake: summarize(samples.awake),
    above: all.filter((took) => took > GOAL.atMost).length,
  }
}

async function slept(client, id) {
  const { items } = await client.call('GET', `/v1/sandboxes/${id}/ledger?limit=200`)
  return items.filter(({ event }) => event === 'slept').length
}

function describe({ all, kept, slept: after, awake, above }) {
  return [
    `A sandbox with ${HEAP_BYTES / 1e6} MB, idle time-out ${IDLE_MS} ms, called at random moments of the ${WINDOW_MS} ms after it:`,
    '',
    timesTable([
      { title: 'all calls', ...all },
      { title: 'calls that kept it awake', ...kept },
      { title: 'calls that found it asleep, or too late to keep it awake', ...after },
      { title: 'control: a call right after the one before', ...awake },
    ]),
    '',
    `${above} of ${all.times} calls waited longer than 80 ms; the longest waited ${ms(all.max)} ms.`,
  ].join('\n')
}
