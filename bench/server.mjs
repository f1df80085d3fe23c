// The server over HTTP: from the request to the first result, and a crowd of sandboxes woken in random order.
import { once } from 'node:events'
import { mkdtemp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Layout } from '../packages/engine-linux/dist/burrow/layout.js'
import { megabytes, ms, report, summarize, timesTable } from './measure.mjs'
import { clientOf } from './server/client.mjs'
import { startIpykernel } from './server/ipykernel.mjs'
import { startServer } from './server/start-server.mjs'
import { readOptions, removeState } from './workbench.mjs'

const options = readOptions({ crowd: { type: 'string' }, clients: { type: 'string', default: '16' } })
const FULL = { hot: 2000, frozen: 100, stored: 20, creates: 40, crowd: 200 }
const QUICK = { hot: 100, frozen: 5, stored: 2, creates: 3, crowd: 8 }
const times = { ...(options.quick ? QUICK : FULL), ...(options.crowd && { crowd: Number(options.crowd) }) }
/** So long that spares are made again. */
const PAUSE_MS = 500
const FROZEN_PAUSE_MS = 20
/** So many runs in a row before it is the other's turn. */
const TURN = 100
const HEAP =
  'import numpy; heap = numpy.random.default_rng(1).integers(0, 255, 1_000_000_000, dtype=numpy.uint8)'

const stateDir = await mkdtemp(join(options.data, 'bench-'))
const server = await startServer(stateDir, options.data)
try {
  const client = clientOf(server)
  const result = {
    hot: await measureHot(client),
    frozen: await measureWake(client, 'frozen', times.frozen),
    stored: await measureWake(client, 'stored', times.stored),
    create: await measureCreate(client),
    crowd: await measureCrowd(client),
  }
  await report({ name: 'server', options, result, text: describe(result) })
  client.close()
} finally {
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')
  await removeState({ dataDir: options.data, stateDir, layout: new Layout(stateDir, options.data) })
}

async function timed(work) {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/**
 * Ours and a plain ipykernel in turns of a hundred runs each: both see the same noise, and neither finds its caches full of the other.
 * Then ours after pauses, awake: what an idle machine takes to do anything at all, to be held against a wake.
 */
async function measureHot(client) {
  const ipykernel = await startIpykernel()
  const { id } = await client.create()
  const ours = []
  const theirs = []
  const once = () => timed(() => client.run(id, 'print(1)'))
  for (let i = 0; i < times.hot / 2; i++) await once()
  for (let turn = 0; turn < times.hot / TURN; turn++) {
    await once()
    for (let i = 0; i < TURN; i++) ours.push(await once())
    await ipykernel?.runOnce()
    for (let i = 0; ipykernel !== undefined && i < TURN; i++) theirs.push(await ipykernel.runOnce())
  }
  await ipykernel?.end()
  const paused = []
  for (let i = 0; i < times.frozen; i++) {
    await sleep(FROZEN_PAUSE_MS)
    paused.push(await once())
  }
  await client.remove(id)
  return {
    ours: summarize(ours),
    ...(theirs.length > 0 && { ipykernel: summarize(theirs) }),
    paused: summarize(paused),
  }
}

async function measureWake(client, tier, count) {
  const { id } = await client.create({ limits: { memoryBytes: 3 * 1024 ** 3 } })
  if (tier === 'stored') await client.run(id, HEAP)
  const samples = []
  for (let i = 0; i < count; i++) {
    await client.standby(id, tier)
    await sleep(tier === 'stored' ? PAUSE_MS : FROZEN_PAUSE_MS)
    samples.push(await timed(() => client.run(id, 'print(1)')))
  }
  await client.remove(id)
  return summarize(samples)
}

async function measureCreate(client) {
  const samples = []
  for (let i = 0; i < times.creates; i++) {
    await sleep(PAUSE_MS)
    let id
    samples.push(
      await timed(async () => {
        ;({ id } = await client.create())
        await client.run(id, 'print(1)')
      }),
    )
    await client.remove(id)
  }
  return summarize(samples)
}

async function measureCrowd(client) {
  const ids = []
  for (let i = 0; i < times.crowd; i++) {
    const { id } = await client.create()
    await client.run(id, `x = ${i}`)
    await client.standby(id, 'stored')
    ids.push([id, i])
  }
  const before = await residentBytes()
  const order = ids.map((entry) => [Math.random(), entry]).sort(([a], [b]) => a - b)
  const waiting = order.map(([, entry]) => entry)
  const samples = []
  let errors = 0
  const began = performance.now()
  const work = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [id, i] = next
      try {
        samples.push(
          await timed(async () => {
            const { stdout } = await client.run(id, 'print(x)')
            if (stdout !== `${i}\n`) throw new Error(`sandbox ${i} says ${stdout}`)
          }),
        )
        await client.standby(id, 'stored')
      } catch (error) {
        errors += 1
        console.error(error.message)
      }
    }
  }
  await Promise.all(Array.from({ length: Number(options.clients) }, work))
  const totalMs = performance.now() - began
  const after = await residentBytes()
  for (const [id] of ids) await client.remove(id)
  return {
    count: ids.length,
    clients: Number(options.clients),
    errors,
    totalMs,
    ...summarize(samples),
    before,
    after,
  }
}

async function residentBytes() {
  const status = await readFile(`/proc/${server.child.pid}/status`, 'latin1')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) * 1024
}

function describe({ hot, frozen, stored, create, crowd }) {
  const rows = [
    { title: 'hot run, `print(1)`', ...hot.ours, goal: { atMost: 2 } },
    ...(hot.ipykernel ? [{ title: '… plain ipykernel with jupyter_client', ...hot.ipykernel }] : []),
    { title: `run after a pause of ${FROZEN_PAUSE_MS} ms, awake`, ...hot.paused },
    { title: 'first result from `frozen`, after the same pause', ...frozen, goal: { atMost: 3 } },
    { title: 'first result from `stored`, 1 GB', ...stored, goal: { atMost: 40 } },
    { title: 'create and first result', ...create, goal: { atMost: 50 } },
    { title: `${crowd.count} asleep, woken in random order by ${crowd.clients} clients`, ...crowd },
  ]
  const memory = `${megabytes(crowd.before)} MB before, ${megabytes(crowd.after)} MB after`
  return `${timesTable(rows)}\n\nThe crowd: ${crowd.errors} errors, ${ms(crowd.totalMs)} ms for all, server memory ${memory}.`
}
