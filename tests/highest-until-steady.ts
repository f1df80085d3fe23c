import { setTimeout as sleep } from 'node:timers/promises'

const SAMPLE_MS = 100
const STEADY_SAMPLES = 6
/** Less is noise. */
const GROWTH_BYTES = 1024 ** 2

/** Samples a number of bytes until it stops growing, and returns the highest. */
export async function highestUntilSteady(read: () => number | Promise<number>): Promise<number> {
  let highest = await read()
  for (let steady = 0; steady < STEADY_SAMPLES; steady += 1) {
    await sleep(SAMPLE_MS)
    const now = await read()
    if (now > highest + GROWTH_BYTES) steady = 0
    highest = Math.max(highest, now)
  }
  return highest
}
