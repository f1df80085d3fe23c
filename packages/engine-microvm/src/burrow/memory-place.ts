import { join } from 'node:path'
import type { MemoryPlace } from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrowPaths } from '../host/microvm-layout.ts'

/** Where a burrow sees memory files that arrive. QEMU itself has no access to this directory. */
export function memoryPlace({ memory, runParent }: MicrovmBurrowPaths): MemoryPlace {
  return { files: memory, directory: join(runParent, 'memory'), socket: join(runParent, 'arrive.sock') }
}
