import { setTimeout as sleep } from 'node:timers/promises'
import { summarize } from '../measure.mjs'

const WARM_UP = 300
/** The directory tells another host of a new sandbox soon. */
const TRIES = 50
const PAUSE_MS = 100

/** The same request to the host of a sandbox and to another host, in turns, each on one kept connection. */
export async function measureHop(owner, other, times) {
  const { id } = await owner.create()
  for (let tries = 0; tries < TRIES; tries += 1) {
    const found = await other.call('GET', `/v1/sandboxes/${id}`).catch(() => undefined)
    if (found !== undefined) break
    await sleep(PAUSE_MS)
  }
  const result = {
    get: await compare([owner, other], (client) => client.call('GET', `/v1/sandboxes/${id}`), times),
    run: await compare([owner, other], (client) => client.run(id, 'print(1)'), times),
  }
  await owner.remove(id)
  return result
}

async function compare([owner, other], ask, times) {
  const samples = { direct: [], passedOn: [] }
  const sides = Object.entries({ direct: owner, passedOn: other })
  for (let count = -WARM_UP; count < times; count += 1) {
    for (const [name, client] of sides) {
      const began = performance.now()
      await ask(client)
      if (count >= 0) samples[name].push(performance.now() - began)
    }
  }
  const [direct, passedOn] = [summarize(samples.direct), summarize(samples.passedOn)]
  return { direct, passedOn, addedP50Ms: passedOn.p50 - direct.p50 }
}
