// Measures the server over HTTP: the time from a request to the first result of a sandbox that sleeps, runs in new
// sandboxes, and 200 sandboxes woken in random order.
import { setTimeout as sleep } from 'node:timers/promises'
import { median, megabytes, ms, report, summarize, timesTable, verdict } from './measure.mjs'
import { atServer } from './server/at-server.mjs'
import { measureRunOnce } from './server/bursts.mjs'
import { measureCrowd } from './server/crowd.mjs'
import { PAUSE_MS, timed } from './server/hot.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({
  crowd: { type: 'string' },
  clients: { type: 'string', default: '16' },
  restores: { type: 'string' },
  only: { type: 'string', default: 'wakes,once,crowd' },
})
const FULL = { frozen: 100, stored: 20, runOnce: 50, crowd: 200, rounds: 5, tens: 10 }
const QUICK = { frozen: 5, stored: 2, runOnce: 5, crowd: 10, rounds: 3, tens: 2 }
const times = { ...(options.quick ? QUICK : FULL), ...(options.crowd && { crowd: Number(options.crowd) }) }
const clients = Number(options.clients)
const HEAP =
  'import numpy; heap = numpy.random.default_rng(1).integers(0, 255, 1_000_000_000, dtype=numpy.uint8)'

/** Each part writes a section of its own. */
const PARTS = {
  wakes: [measureWakes, describeWakes],
  once: [({ client }) => measureRunOnce({ client, count: times.runOnce }), describeOnce],
  crowd: [
    (context) =>
      measureCrowd({ ...context, count: times.crowd, clients, rounds: times.rounds, tens: times.tens }),
    describeCrowd,
  ],
}

const config = { ...(options.restores && { restoresAtOnce: Number(options.restores) }) }
await atServer(
  options,
  async (context) => {
    const parts = options.only.split(',')
    for (const [name, [measure, describe]] of Object.entries(PARTS)) {
      if (!parts.includes(name)) continue
      console.error(`… ${name}`)
      const result = await measure(context)
      await report({ name, program: 'server', options, result, text: describe(result) })
    }
  },
  config,
)

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

async function measureWakes({ client }) {
  return {
    awake: await measureAwake(client, times.frozen),
    frozen: await measureWake(client, 'frozen', times.frozen),
    stored: await measureWake(client, 'stored', times.stored),
  }
}

/** The baseline: how long a run takes after the same pause without a sleep. */
async function measureAwake(client, count) {
  const { id } = await client.create()
  const samples = []
  for (let i = 0; i < count; i++) {
    await sleep(PAUSE_MS)
    samples.push(await timed(() => client.run(id, 'print(1)')))
  }
  await client.remove(id)
  return summarize(samples)
}

function describeWakes({ awake, frozen, stored }) {
  return timesTable([
    { title: `run after a pause of ${PAUSE_MS} ms, awake`, ...awake },
    { title: 'first result from `frozen`, after the same pause', ...frozen, goal: { atMost: 4 } },
    { title: 'first result from `stored`, 1 GB', ...stored, goal: { atMost: 33 } },
  ])
}

function describeOnce({ inTurn, together, control }) {
  const rows = [
    { title: '`POST /v1/run`, one after the other', ...inTurn, goal: { atMost: 35 } },
    { title: '… ten at a time', ...together },
    { title: 'control: a plain `python3 -c` on the host, in turns with the first row', ...control.inTurn },
    { title: '… ten at a time', ...control.together },
  ]
  const rate = together.perSecond
  return `${timesTable(rows)}\n\nTen at a time, ${rate.toFixed(1)} runs in new sandboxes per second (${verdict(rate, { atLeast: 30 })}), and ${control.together.perSecond.toFixed(1)} plain processes.`
}

function describeCrowd(crowd) {
  const rows = [
    {
      title: `${crowd.count} asleep, woken in random order by ${crowd.clients} clients`,
      ...crowd,
      goal: { atMost: 350 },
    },
    {
      title: `control: ${crowd.count} plain \`python3 -c\` on the host, ${crowd.clients} at a time`,
      ...crowd.control,
    },
  ]
  const tens = [
    { title: 'ten of them woken together, until the last has answered', ...crowd.ten },
    { title: 'control: ten plain `python3 -c` together', ...crowd.ten.control },
  ]
  rows.push(...tens)
  const rounds = crowd.residentAfter.map((bytes) => `${megabytes(bytes)} MB`)
  const memory = `server memory ${megabytes(crowd.residentBefore)} MB when all were asleep, ${rounds.join(', ')} after each round of wakes`
  const live = `live heap ${megabytes(crowd.heapBefore)} MB before and ${megabytes(crowd.heapAfter)} MB after`
  const rate = (crowd.count / median(crowd.roundMs)) * 1000
  const rates = `${rate.toFixed(1)} stored sandboxes woken per second in the median round (${verdict(rate, { atLeast: 45 })}); ${crowd.control.perSecond.toFixed(1)} plain processes per second.`
  const mean = (of) => (crowd.cpu.reduce((sum, round) => sum + of(round), 0) / crowd.cpu.length).toFixed(1)
  const cpu = `CPU time of one of these wakes: ${mean(({ server }) => server)} ms in the server, ${mean(({ burrows }) => burrows)} ms in the sandbox and in what restores it; the CPUs were idle for ${mean(({ idle }) => idle)} ms.`
  return `${timesTable(rows)}\n\n${rates} ${cpu}\n\n${crowd.errors} errors; ${crowd.roundMs.map(ms).join(', ')} ms for each round; ${memory}; ${live}.`
}
