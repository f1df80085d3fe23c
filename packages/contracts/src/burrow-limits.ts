import { z } from 'zod'
import {
  DEFAULT_CPUS,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  MAX_CPUS,
  MAX_MEMORY_BYTES,
  MAX_PIDS,
  MIN_CPUS,
  MIN_MEMORY_BYTES,
  MIN_PIDS,
} from './limits.ts'

export const burrowLimitsSchema = z.strictObject({
  memoryBytes: z.int().min(MIN_MEMORY_BYTES).max(MAX_MEMORY_BYTES).default(DEFAULT_MEMORY_BYTES),
  cpus: z.number().min(MIN_CPUS).max(MAX_CPUS).default(DEFAULT_CPUS),
  pids: z.int().min(MIN_PIDS).max(MAX_PIDS).default(DEFAULT_PIDS),
  /** At the memory limit, Linux kills a process (the default), or processes wait until the limit is raised. */
  atMemoryLimit: z.enum(['kill', 'pause']).exactOptional(),
})

export type BurrowLimits = z.output<typeof burrowLimitsSchema>
/** As a caller writes them: every limit has a default. */
export type BurrowLimitsInput = z.input<typeof burrowLimitsSchema>
