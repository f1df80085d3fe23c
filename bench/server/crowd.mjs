import { readFile } from 'node:fs/promises'
import { summarize } from '../measure.mjs'

/** Wakes `count` stored sandboxes in random order, `rounds` times. Measures latencies and the memory of the server. */
export async function measureCrowd({ client, server, count, clients, rounds }) {
  const heapBefore = await server.liveBytes()
  const sandboxes = []
  for (let number = 0; number < count; number++) {
    const { id } = await client.create()
    await client.run(id, `x = ${number}`)
    await client.standby(id, 'stored')
    sandboxes.push({ id, number })
  }
  const residentBefore = await residentBytes(server)
  const [samples, roundMs, residentAfter] = [[], [], []]
  let errors = 0
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    const woken = await wakeAll({ client, clients, sandboxes: shuffled(sandboxes) })
    roundMs.push(performance.now() - began)
    residentAfter.push(await residentBytes(server))
    samples.push(...woken.samples)
    errors += woken.errors
  }
  const heapAfter = await server.liveBytes()
  for (const { id } of sandboxes) await client.remove(id)
  return {
    ...{ count, clients, errors, roundMs, ...summarize(samples) },
    ...{ residentBefore, residentAfter, heapBefore, heapAfter },
  }
}

async function wakeAll({ client, clients, sandboxes }) {
  const waiting = [...sandboxes]
  const samples = []
  let errors = 0
  const work = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      try {
        const began = performance.now()
        const { stdout } = await client.run(next.id, 'print(x)')
        samples.push(performance.now() - began)
        if (stdout !== `${next.number}\n`) throw new Error(`Sandbox ${next.number} printed ${stdout}`)
        await client.standby(next.id, 'stored')
      } catch (error) {
        errors += 1
        console.error(error.message)
      }
    }
  }
  await Promise.all(Array.from({ length: clients }, work))
  return { samples, errors }
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
