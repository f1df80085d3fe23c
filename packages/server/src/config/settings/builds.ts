import {
  burrowLimitsSchema,
  DEFAULT_FILES,
  MAX_DISK_BYTES,
  MIN_DISK_BYTES,
  MIN_FILES,
} from '@dormouse/contracts'
import { z } from 'zod'
import { optional, setting } from '../setting.ts'
import { timerMs } from '../value-schemas.ts'

const GIB = 1024 ** 3
const { shape: limits } = burrowLimitsSchema

/** Limits of sandboxes that build a template. Compilers need more than most sandboxes. */
export const buildSettings = {
  builds: {
    atOnce: setting(z.int().min(1).max(1024), 4, {
      summary: 'How many templates the server builds at the same time; one key may have half of them.',
      details: 'The server refuses more with `overloaded`.',
    }),
    builtIn: setting(z.boolean(), true, {
      summary: 'Whether `up` builds the templates `node`, `code` and `data` in the background.',
    }),
    timeoutMs: setting(timerMs.min(1000), 1_800_000, { summary: 'How long one build may take.' }),
    memoryBytes: optional(limits.memoryBytes.unwrap(), {
      defaultText: 'that of sandboxes that name none, at least 2 GiB',
      summary: 'Memory of a build.',
      details: 'It counts towards the quotas of the key.',
    }),
    cpus: setting(limits.cpus.unwrap(), 2, { summary: 'CPUs of a build.' }),
    pids: setting(limits.pids.unwrap(), 1024, { summary: 'Processes of a build.' }),
    diskBytes: setting(z.int().min(MIN_DISK_BYTES).max(MAX_DISK_BYTES), 10 * GIB, {
      summary: 'How much a build may write.',
    }),
    files: setting(z.int().min(MIN_FILES), DEFAULT_FILES, { summary: 'How many files a build may make.' }),
  },
}
