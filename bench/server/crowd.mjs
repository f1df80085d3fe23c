import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BurrowCgroup } from '../../packages/engine-linux/dist/cgroup/burrow-cgroup.js'
import { findHierarchies } from '../../packages/engine-linux/dist/cgroup/find-hierarchies.js'
import { median, summarize } from '../measure.mjs'
import { inParallel, timePlainPython } from './plain-process.mjs'

/** Of the times in /proc/PID/stat. */
const TICK_MS = 10
/** Until the server has done what follows from the sleeps. */
const SETTLE_MS = 3000
const TEN = 10

/**
 * Wakes `count` stored sandboxes in random order, `rounds` times. Measures latencies, CPU time and the memory of the
 * server. After each round all are stored again, which does not count; then comes the control, as many plain processes.
 */
export async function measureCrowd({ client, server, layout, count, clients, rounds, tens }) {
  const heapBefore = await server.liveBytes()
  const sandboxes = []
  for (let number = 0; number < count; number++) {
    const { id } = await client.create()
    await client.run(id, `x = ${number}`)
    await client.standby(id, 'stored')
    sandboxes.push({ id, number })
  }
  const residentBefore = await residentBytes(server)
  const [samples, roundMs, residentAfter, cpu, control] = [[], [], [], [], []]
  let errors = 0
  for (let round = 0; round < rounds; round++) {
    const before = await readCpuMs(server, layout)
    const began = performance.now()
    const woken = await wakeAll({ client, clients, sandboxes: shuffled(sandboxes) })
    roundMs.push(performance.now() - began)
    const after = await readCpuMs(server, layout)
    cpu.push({
      server: (after.server - before.server) / count,
      burrows: (after.burrows - before.burrows) / count,
      idle: (after.idle - before.idle) / count,
    })
    residentAfter.push(await residentBytes(server))
    samples.push(...woken.samples)
    errors += woken.errors
    await inParallel(clients, sandboxes, ({ id }) => client.standby(id, 'stored'))
    await sleep(SETTLE_MS)
    control.push(await inParallel(clients, sandboxes, timePlainPython))
  }
  const ten = await measureTen({ client, sandboxes, rounds: tens })
  const heapAfter = await server.liveBytes()
  for (const { id } of sandboxes) await client.remove(id)
  return {
    ...{ count, clients, errors, roundMs, cpu, ...summarize(samples) },
    control: {
      ...summarize(control.flatMap(({ results }) => results)),
      perSecond: median(control.map(({ perSecond }) => perSecond)),
    },
    ...{ ten, residentBefore, residentAfter, heapBefore, heapAfter },
  }
}

/** Wakes ten stored sandboxes at once, in turns with ten plain processes at once: until the last one has answered. */
async function measureTen({ client, sandboxes, rounds }) {
  const samples = []
  const control = []
  while (samples.length < rounds) {
    const ten = shuffled(sandboxes).slice(0, TEN)
    await sleep(SETTLE_MS)
    const began = performance.now()
    const { errors } = await wakeAll({ client, clients: TEN, sandboxes: ten })
    samples.push(performance.now() - began)
    if (errors > 0) throw new Error('One of ten sandboxes has not answered.')
    await inParallel(TEN, ten, ({ id }) => client.standby(id, 'stored'))
    await sleep(SETTLE_MS)
    const startedAt = performance.now()
    await inParallel(TEN, ten, timePlainPython)
    control.push(performance.now() - startedAt)
  }
  return { ...summarize(samples), control: summarize(control) }
}

async function wakeAll({ client, clients, sandboxes }) {
  const samples = []
  let errors = 0
  await inParallel(clients, sandboxes, async ({ id, number }) => {
    try {
      const began = performance.now()
      const { stdout } = await client.run(id, 'print(x)')
      samples.push(performance.now() - began)
      if (stdout !== `${number}\n`) throw new Error(`Sandbox ${number} printed ${stdout}`)
    } catch (error) {
      errors += 1
      console.error(error.message)
    }
  })
  return { samples, errors }
}

/** CPU time so far: of the server with all its threads, and of everything in the cgroups of its burrows. */
async function readCpuMs({ child }, layout) {
  const fields = (await readFile(`/proc/${child.pid}/stat`, 'latin1')).split(') ')[1].split(' ')
  const server = (Number(fields[11]) + Number(fields[12])) * TICK_MS
  const idle = await readIdleMs()
  for (const directory of new BurrowCgroup(await findHierarchies(), layout.cgroupName).directories) {
    const nanoseconds = await readFile(join(directory, 'cpuacct.usage'), 'latin1').catch(() => undefined)
    if (nanoseconds !== undefined) return { server, idle, burrows: Number(nanoseconds) / 1e6 }
    const stat = await readFile(join(directory, 'cpu.stat'), 'latin1').catch(() => '')
    const microseconds = /^usage_usec (\d+)$/m.exec(stat)?.[1]
    if (microseconds !== undefined) return { server, idle, burrows: Number(microseconds) / 1e3 }
  }
  return { server, idle, burrows: Number.NaN }
}

/** Of all CPUs of the machine together. */
async function readIdleMs() {
  const [, , , , idle, wait] = (await readFile('/proc/stat', 'latin1')).split('\n', 1)[0].split(/\s+/)
  return (Number(idle) + Number(wait)) * TICK_MS
}

function shuffled(items) {
  return items
    .map((item) => ({ at: Math.random(), item }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

/** Includes garbage. */
async function residentBytes({ child }) {
  const status = await readFile(`/proc/${child.pid}/status`, 'latin1')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) * 1024
}
