// Measures a server with many sleeping sandboxes: memory, disk, idle CPU, lists, a restart after kill -9, and wakes.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Layout } from '../packages/engine-linux/dist/host/layout.js'
import { megabytes, ms, report, summarize, table, verdict } from './measure.mjs'
import { clientOf } from './server/client.mjs'
import { startServer } from './server/start-server.mjs'
import { readOptions, removeState } from './workbench.mjs'

const options = readOptions({ count: { type: 'string' }, frozen: { type: 'string' } })
const COUNT = Number(options.count ?? (options.quick ? 20 : 1000))
const FROZEN = Number(options.frozen ?? (options.quick ? 10 : 200))
const FORK_AT_ONCE = 20
const WAKES = options.quick ? 5 : 40
const IDLE_SECONDS = options.quick ? 3 : 20
/** What each sandbox changes by itself. */
const CHANGE_BYTES = 100_000

const stateDir = await mkdtemp(join(options.data, 'bench-'))
let server = await startServer(stateDir, options.data)
try {
  let client = clientOf(server)
  const few = await makeSleeping(client, 10, 'stored')
  const wakeWithFew = await measureWakes(client, few, 'stored')
  const diskBefore = diskBytes()
  const many = [...few, ...(await makeSleeping(client, COUNT - few.length, 'stored'))]
  const diskPerSandbox = (diskBytes() - diskBefore) / (COUNT - few.length) - CHANGE_BYTES
  const list = await measureList(client)
  const idleShare = await cpuShare()
  const residentBytes = await resident()
  const wakeWithMany = await measureWakes(client, many, 'stored')
  const readyMs = await restart()
  client = clientOf(server)
  const wakeAfterRestart = await measureWakes(client, many, 'stored')
  const frozen = await measureFrozen(client)
  const result = {
    ...{ count: COUNT, diskPerSandbox, residentBytes, idleShare, list, readyMs },
    ...{ wakeWithFew, wakeWithMany, wakeAfterRestart, frozen },
  }
  await report({ name: 'many', options, result, text: describe(result) })
  client.close()
} finally {
  server.child.kill('SIGTERM')
  await once(server.child, 'exit')
  await removeState({ dataDir: options.data, stateDir, layout: new Layout(stateDir, options.data) })
}

/** Forks sandboxes of one parent; each changes something of its own and sleeps. */
async function makeSleeping(client, count, tier) {
  const parent = await client.create()
  await client.run(parent.id, 'import os')
  const made = []
  while (made.length < count) {
    const forked = await client.call('POST', `/v1/sandboxes/${parent.id}/fork`, {
      count: Math.min(FORK_AT_ONCE, count - made.length),
    })
    const change = async ({ id }, index) => {
      const number = made.length + index
      await client.run(id, `x = ${number}; own = os.urandom(${CHANGE_BYTES})`)
      await client.standby(id, tier)
      return { id, number }
    }
    made.push(...(await Promise.all(forked.children.map(change))))
    if (made.length % 200 === 0) console.error(`${made.length} sandboxes`)
  }
  await client.remove(parent.id)
  return made
}

async function measureWakes(client, sandboxes, tier) {
  const samples = []
  for (let n = 0; n < WAKES; n++) {
    const { id, number } = sandboxes[Math.floor(Math.random() * sandboxes.length)]
    await sleep(300)
    const began = performance.now()
    const { stdout } = await client.run(id, 'print(x)')
    samples.push(performance.now() - began)
    if (stdout !== `${number}\n`) throw new Error(`sandbox ${number} printed ${stdout}`)
    await client.standby(id, tier)
  }
  return summarize(samples)
}

async function measureList(client) {
  const samples = []
  for (let n = 0; n < 50; n++) {
    const began = performance.now()
    await client.call('GET', '/v1/sandboxes?limit=100')
    samples.push(performance.now() - began)
  }
  return summarize(samples)
}

async function measureFrozen(client) {
  const sandboxes = await makeSleeping(client, FROZEN, 'frozen')
  const idleShare = await cpuShare()
  let privateBytes = 0
  for (const { id } of sandboxes) {
    const { memory } = await client.call('GET', `/v1/sandboxes/${id}/metrics?memory=true`)
    privateBytes += memory?.privateBytes ?? 0
  }
  return {
    count: FROZEN,
    idleShare,
    privateBytes: privateBytes / FROZEN,
    wake: await measureWakes(client, sandboxes, 'frozen'),
  }
}

async function restart() {
  server.child.kill('SIGKILL')
  await once(server.child, 'exit')
  const began = performance.now()
  server = await startServer(stateDir, options.data)
  return performance.now() - began
}

async function cpuShare() {
  const ticks = async () => {
    const fields = (await readFile(`/proc/${server.child.pid}/stat`, 'utf8')).split(') ')[1].split(' ')
    return Number(fields[11]) + Number(fields[12])
  }
  await sleep(3000)
  const before = await ticks()
  await sleep(IDLE_SECONDS * 1000)
  return ((await ticks()) - before) / 100 / IDLE_SECONDS
}

async function resident() {
  const status = await readFile(`/proc/${server.child.pid}/status`, 'latin1')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) * 1024
}

function diskBytes() {
  return Number(execFileSync('du', ['-sB1', stateDir], { encoding: 'utf8' }).split('\t')[0])
}

function describe(result) {
  const { count, list, frozen, wakeWithFew, wakeWithMany, wakeAfterRestart } = result
  const percent = (share) => `${(share * 100).toFixed(2)} %`
  const rows = [
    [
      'disk per sandbox beyond what it changed',
      `${megabytes(result.diskPerSandbox)} MB`,
      '',
      verdict(result.diskPerSandbox / 1e6, { atMost: 2 }, 'MB'),
    ],
    [
      'resident memory of the server',
      `${megabytes(result.residentBytes)} MB`,
      '',
      verdict(result.residentBytes / 1e6, { atMost: 300 }, 'MB'),
    ],
    [
      'CPU of the server, all asleep',
      percent(result.idleShare),
      '',
      verdict(result.idleShare * 100, { atMost: 0.5 }, '%'),
    ],
    ['list of 100', `${ms(list.p50)} ms`, `${ms(list.p99)} ms`, verdict(list.p50, { atMost: 20 }, 'ms')],
    [
      'ready after `kill -9`',
      `${ms(result.readyMs)} ms`,
      '',
      verdict(result.readyMs, { atMost: 5000 }, 'ms'),
    ],
    ['wake with ten stored', `${ms(wakeWithFew.p50)} ms`, `${ms(wakeWithFew.p99)} ms`, ''],
    [`wake with ${count} stored`, `${ms(wakeWithMany.p50)} ms`, `${ms(wakeWithMany.p99)} ms`, ''],
    ['… after the restart', `${ms(wakeAfterRestart.p50)} ms`, `${ms(wakeAfterRestart.p99)} ms`, ''],
    [
      `${frozen.count} frozen: memory that only one has`,
      `${megabytes(frozen.privateBytes)} MB`,
      '',
      verdict(frozen.privateBytes / 1e6, { atMost: 6 }, 'MB'),
    ],
    [
      `${frozen.count} frozen: CPU of the server`,
      percent(frozen.idleShare),
      '',
      verdict(frozen.idleShare * 100, { atMost: 0.5 }, '%'),
    ],
    [
      `${frozen.count} frozen: first result`,
      `${ms(frozen.wake.p50)} ms`,
      `${ms(frozen.wake.p99)} ms`,
      verdict(frozen.wake.p50, { atMost: 4 }, 'ms'),
    ],
  ]
  return `${table([`${count} sandboxes, forked from one and stored`, 'value, or p50', 'p99', 'goal'], rows)}\n\nEach sandbox has changed ${megabytes(CHANGE_BYTES)} MB of its own.`
}
