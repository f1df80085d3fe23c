import { setTimeout as sleep } from 'node:timers/promises'
import { summarize } from '../measure.mjs'
import { startIpykernel } from './ipykernel.mjs'

/** Long enough for the server to make spares again and to clean up after a sleep. */
export const PAUSE_MS = 500
/** Runs in a row before the other kernel takes its turn. */
const TURN = 100

export async function timed(work) {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/**
 * Runs ours and a plain ipykernel in turns of a hundred runs each, so that both see the same noise and neither finds
 * its caches full of the other's data. Then runs ours after pauses, awake: a baseline for wakes on an idle machine.
 */
export async function measureHot(client, { runs, pauses }) {
  const ipykernel = await startIpykernel()
  const { id } = await client.create()
  const ours = []
  const theirs = []
  const once = () => timed(() => client.run(id, 'print(1)'))
  for (let i = 0; i < runs / 2; i++) await once()
  for (let turn = 0; turn < runs / TURN; turn++) {
    await once()
    for (let i = 0; i < TURN; i++) ours.push(await once())
    await ipykernel.runOnce()
    for (let i = 0; i < TURN; i++) theirs.push(await ipykernel.runOnce())
  }
  await ipykernel.end()
  const paused = []
  for (let i = 0; i < pauses; i++) {
    await sleep(PAUSE_MS)
    paused.push(await once())
  }
  await client.remove(id)
  return {
    ours: summarize(ours),
    ipykernel: summarize(theirs),
    paused: summarize(paused),
  }
}

/** Creates sandboxes with pauses between them, each with a first run. */
export async function measureCreate(client, { count }) {
  const samples = []
  for (let i = 0; i < count; i++) {
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
