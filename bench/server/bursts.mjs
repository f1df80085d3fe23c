import { setTimeout as sleep } from 'node:timers/promises'
import { summarize } from '../measure.mjs'
import { inParallel, timePlainPython } from './plain-process.mjs'

const BURST = 10
/** Long enough for the server to restore a burst of sandboxes ahead of need. */
const REFILL_MS = 4_000

/**
 * Creates ten sandboxes in a row, again and again. Returns all times of the earliest burst, for which the reserve is not
 * large enough, and those of the first and of the tenth sandbox in the bursts after it.
 */
export async function measureBursts({ client, bursts }) {
  const earliest = []
  const first = []
  const tenth = []
  for (let burst = 0; burst <= bursts; burst++) {
    const ids = []
    for (let n = 1; n <= BURST; n++) {
      const began = performance.now()
      const { id } = await client.create()
      await client.run(id, 'print(1)')
      const took = performance.now() - began
      ids.push(id)
      if (burst === 0) earliest.push(took)
      else if (n === 1) first.push(took)
      else if (n === BURST) tenth.push(took)
    }
    for (const id of ids) await client.remove(id)
    await sleep(REFILL_MS)
  }
  return { earliest, first: summarize(first), tenth: summarize(tenth) }
}

/**
 * Runs code in a new sandbox for each call: one after the other, in turns of ten with plain processes, then ten at a
 * time.
 */
export async function measureRunOnce({ client, count }) {
  const once = async () => {
    const began = performance.now()
    await client.call('POST', '/v1/run', { code: 'print(1)' })
    return performance.now() - began
  }
  const inTurn = []
  const plainInTurn = []
  while (inTurn.length < count) {
    for (let n = 0; n < BURST; n++) inTurn.push(await once())
    for (let n = 0; n < BURST; n++) plainInTurn.push(await timePlainPython())
  }
  await sleep(REFILL_MS)
  const calls = Array.from({ length: 2 * count }, (_, n) => n)
  const together = await inParallel(BURST, calls, once)
  await sleep(REFILL_MS)
  const plainTogether = await inParallel(BURST, calls, timePlainPython)
  const summary = ({ results, perSecond }) => ({ ...summarize(results), perSecond })
  return {
    inTurn: summarize(inTurn),
    together: summary(together),
    control: { inTurn: summarize(plainInTurn), together: summary(plainTogether) },
  }
}
