// Measures the server over HTTP: the time from a request to the first result, and 200 sandboxes woken in random order.
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Layout } from '../packages/engine-linux/dist/host/layout.js'
import { megabytes, ms, report, summarize, timesTable } from './measure.mjs'
import { measureBursts, measureRunOnce } from './server/bursts.mjs'
import { clientOf } from './server/client.mjs'
import { measureCrowd } from './server/crowd.mjs'
import { startIpykernel } from './server/ipykernel.mjs'
import { startServer } from './server/start-server.mjs'
import { readOptions, removeState } from './workbench.mjs'

const options = readOptions({ crowd: { type: 'string' }, clients: { type: 'string', default: '16' } })
const FULL = {
  hot: 2000,
  frozen: 100,
  stored: 20,
  creates: 40,
  bursts: 10,
  runOnce: 50,
  crowd: 200,
  rounds: 3,
}
const QUICK = { hot: 100, frozen: 5, stored: 2, creates: 3, bursts: 2, runOnce: 5, crowd: 8, rounds: 3 }
const times = { ...(options.quick ? QUICK : FULL), ...(options.crowd && { crowd: Number(options.crowd) }) }
/** Long enough for the server to make spares again and to clean up after a sleep. */
const PAUSE_MS = 500
/** Runs in a row before the other kernel takes its turn. */
const TURN = 100
const HEAP =
  'import numpy; heap = numpy.random.default_rng(1).integers(0, 255, 1_000_000_000, dtype=numpy.uint8)'

const stateDir = await mkdtemp(join(options.data, 'bench-'))
const layout = new Layout(stateDir, options.data)
const server = await startServer(stateDir, options.data)
try {
  const client = clientOf(server)
  const result = {
    hot: await measureHot(client),
    frozen: await measureWake(client, 'frozen', times.frozen),
    stored: await measureWake(client, 'stored', times.stored),
    create: await measureCreate(client),
    bursts: await measureBursts({ client, bursts: times.bursts }),
    runOnce: await measureRunOnce({ client, count: times.runOnce }),
    crowd: await measureCrowd({
      ...{
        client,
        server,
        layout,
        count: times.crowd,
        clients: Number(options.clients),
        rounds: times.rounds,
      },
    }),
  }
  await report({ name: 'server', options, result, text: describe(result) })
  client.close()
} finally {
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')
  await removeState({ dataDir: options.data, stateDir, layout })
}

async function timed(work) {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/**
 * Runs ours and a plain ipykernel in turns of a hundred runs each, so that both see the same noise and neither finds
 * its caches full of the other's data. Then runs ours after pauses, awake: a baseline for wakes on an idle machine.
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
    await sleep(PAUSE_MS)
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
    await sleep(PAUSE_MS)
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

function describe({ hot, frozen, stored, create, bursts, runOnce, crowd }) {
  const rows = [
    { title: 'hot run, `print(1)`', ...hot.ours, goal: { atMost: 1.2 } },
    ...(hot.ipykernel ? [{ title: '… plain ipykernel with jupyter_client', ...hot.ipykernel }] : []),
    { title: `run after a pause of ${PAUSE_MS} ms, awake`, ...hot.paused },
    { title: 'first result from `frozen`, after the same pause', ...frozen, goal: { atMost: 4 } },
    { title: 'first result from `stored`, 1 GB', ...stored, goal: { atMost: 33 } },
    { title: 'create and first result', ...create, goal: { atMost: 12 } },
    { title: '… the first of ten in a row', ...bursts.first, goal: { atMost: 12 } },
    { title: '… the tenth', ...bursts.tenth, goal: { atMost: 12 } },
    { title: '`POST /v1/run`, one after the other', ...runOnce.inTurn, goal: { atMost: 35 } },
    { title: '… ten at a time', ...runOnce.together },
    {
      title: `${crowd.count} asleep, woken in random order by ${crowd.clients} clients`,
      ...crowd,
      goal: { atMost: 350 },
    },
  ]
  const rounds = crowd.residentAfter.map((bytes) => `${megabytes(bytes)} MB`)
  const memory = `server memory ${megabytes(crowd.residentBefore)} MB when all were asleep, ${rounds.join(', ')} after each round of wakes`
  const live = `live heap ${megabytes(crowd.heapBefore)} MB before and ${megabytes(crowd.heapAfter)} MB after`
  const rate = (crowd.count / Math.min(...crowd.roundMs)) * 1000
  const rates = `Ten at a time, ${runOnce.together.perSecond.toFixed(1)} runs in new sandboxes per second (goal: 30); ${rate.toFixed(1)} stored sandboxes woken per second (goal: 45).`
  const mean = (of) => (crowd.cpu.reduce((sum, round) => sum + of(round), 0) / crowd.cpu.length).toFixed(1)
  const cpu = `CPU time of one of these wakes: ${mean(({ server }) => server)} ms in the server, ${mean(({ burrows }) => burrows)} ms in the sandbox and in what restores it.`
  return `${timesTable(rows)}\n\n${rates} ${cpu}\n\nThe ${crowd.count} sandboxes: ${crowd.errors} errors; ${crowd.roundMs.map(ms).join(', ')} ms for each round; ${memory}; ${live}.`
}
