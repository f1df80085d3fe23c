import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** What this process holds on to. Not its resident size: that tells as much of when garbage was last collected. */
export function heldBytes(): number {
  collectGarbage()
  // Buffers are counted until those found in the round before have been given back.
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
