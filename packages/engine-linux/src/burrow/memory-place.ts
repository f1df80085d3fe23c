import { join } from 'node:path'
import type { MemoryPlace } from '../arrival/memory-mount.ts'
import type { BurrowPaths } from '../host/layout.ts'

/** Where a burrow sees memory files that arrive. */
export function memoryPlace({ memory, run }: BurrowPaths): MemoryPlace {
  return { files: memory, directory: join(run, 'memory'), socket: join(run, 'arrive.sock') }
}
