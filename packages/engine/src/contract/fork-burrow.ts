import assert from 'node:assert'
import type { Burrow, Engine } from '../engine.ts'
import type { ForkedBurrow, ForkOptions } from '../fork-options.ts'

/** Forks, and fails when the parent does not continue. */
export async function forkBurrow(
  engine: Engine,
  burrow: Burrow,
  options: ForkOptions,
): Promise<ForkedBurrow & { readonly parent: Burrow }> {
  const { parent, ...forked } = await engine.fork(burrow, options)
  assert(parent !== undefined, `The parent did not continue: ${String(forked.resumeError)}`)
  return { ...forked, parent }
}
