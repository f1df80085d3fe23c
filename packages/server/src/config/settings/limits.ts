import {
  DEFAULT_CPUS,
  DEFAULT_DISK_BYTES,
  DEFAULT_FILES,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  DEFAULT_VOLUME_BYTES,
  ISOLATIONS,
  MAX_CPUS,
  MAX_DISK_BYTES,
  MAX_FILES,
  MAX_MEMORY_BYTES,
  MAX_PIDS,
  MIN_CPUS,
  MIN_DISK_BYTES,
  MIN_FILES,
  MIN_MEMORY_BYTES,
  MIN_PIDS,
} from '@dormouse/contracts'
import { z } from 'zod'
import type { HostFacts } from '../host-facts.ts'
import { setting } from '../setting.ts'
import { bytes } from '../value-schemas.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const WATERMARK_SHARE = 0.05
/** Limits are not reserved, so one busy sandbox gets as much of the host as leaves room for others. */
const DEFAULT_SHARE = 0.5

/** What the host keeps for itself, what a sandbox gets by default, and the most that one may ask for. */
export const limitSettings = {
  isolation: setting(z.enum(ISOLATIONS), 'process', {
    env: 'DORMOUSE_ISOLATION',
    flag: '--isolation',
    argument: 'KIND',
    summary:
      'What is between a sandbox and the host, unless its creator says otherwise: `process` or `microvm`.',
    details:
      'With `microvm`, `up` installs QEMU and the kernel of the guests first. Once they are installed, sandboxes can ask for either.',
  }),
  processIsolation: setting(z.enum(['allowed', 'forbidden']), 'allowed', {
    env: 'DORMOUSE_PROCESS_ISOLATION',
    summary: 'Whether new sandboxes may have isolation `process`, which shares the kernel of the host.',
    details:
      'With `forbidden`, `isolation` must be `microvm`. Template builds are refused, too: they run as processes. Sandboxes that exist continue.',
  }),
  minFreeMemoryBytes: setting(bytes, minFreeMemoryBytes, {
    env: 'DORMOUSE_MIN_FREE_MEMORY_BYTES',
    defaultText: '5 % of the memory, 256 MiB to 2 GiB',
    summary:
      'Below this much free memory, the server stores frozen sandboxes and refuses to start or wake others.',
  }),
  minFreeDiskBytes: setting(
    bytes,
    // A standby must always find room for its snapshot.
    ({ diskBytes }) => clamp(diskBytes * WATERMARK_SHARE, GIB, 20 * GIB),
    {
      env: 'DORMOUSE_MIN_FREE_DISK_BYTES',
      defaultText: '5 % of the file system of the data directory, 1 GiB to 20 GiB',
      summary:
        'Below this much free disk space, the server creates nothing; sandboxes can still go to standby.',
      details:
        'Before that point, the server puts the sandboxes that write fastest to standby. They wake when there is room. In a ' +
        'cluster, no sandbox goes to a host that has less, or would have less with its snapshot.',
    },
  ),
  minFreeFiles: setting(
    z.int().min(0),
    ({ files }) => (files === 0 ? 0 : clamp(files * WATERMARK_SHARE, 1_000, 500_000)),
    {
      env: 'DORMOUSE_MIN_FREE_FILES',
      defaultText:
        '5 % of the inodes of that file system, 1,000 to 500,000; 0 where their number is not fixed',
      summary: 'The same for free inodes.',
    },
  ),
  defaults: {
    memoryBytes: setting(z.int().min(MIN_MEMORY_BYTES).max(MAX_MEMORY_BYTES), defaultMemoryBytes, {
      env: 'DORMOUSE_DEFAULT_MEMORY_BYTES',
      defaultText: 'half of the memory of the host, 1 GiB to 8 GiB',
      summary: '`limits.memoryBytes` of sandboxes created without it.',
      details:
        'A limit reserves nothing: sandboxes start and wake as long as the host has free memory, whatever their limits ' +
        'add up to. A key with a quota of memory gets a quarter of the quota at most, but 1 GiB where the quota has it.',
    }),
    cpus: setting(z.number().min(MIN_CPUS).max(MAX_CPUS), defaultCpus, {
      env: 'DORMOUSE_DEFAULT_CPUS',
      defaultText: 'half of the CPUs of the host, 1 to 4',
      summary: 'The same for `limits.cpus`.',
    }),
  },
  // A ceiling below the default limits would refuse sandboxes that name no limit.
  ceilings: {
    memoryBytes: setting(
      z.int().min(MIN_MEMORY_BYTES),
      (host) => Math.max(DEFAULT_MEMORY_BYTES, host.memoryBytes - minFreeMemoryBytes(host)),
      {
        env: 'DORMOUSE_CEILING_MEMORY_BYTES',
        defaultText: 'the memory of the host without `minFreeMemoryBytes`, at least 1 GiB',
        summary: 'The highest `limits.memoryBytes` that any sandbox may ask for, with any key.',
        details:
          'The server refuses more with `limit_reached`. A sandbox that names no limit gets the default or this ceiling, ' +
          'whichever is lower.',
      },
    ),
    cpus: setting(z.number().min(MIN_CPUS), ({ cpus }) => Math.max(DEFAULT_CPUS, cpus), {
      env: 'DORMOUSE_CEILING_CPUS',
      defaultText: 'number of CPUs',
      summary: 'The same for `limits.cpus`.',
    }),
    pids: setting(z.int().min(MIN_PIDS), ({ pids }) => clamp(pids / 2, DEFAULT_PIDS, MAX_PIDS), {
      env: 'DORMOUSE_CEILING_PIDS',
      defaultText: 'half of `kernel.pid_max`, at most 32,768',
      summary: 'The same for `limits.pids`.',
    }),
    diskBytes: setting(
      z.int().min(MIN_DISK_BYTES),
      ({ diskBytes }) => Math.max(DEFAULT_DISK_BYTES, diskBytes),
      {
        env: 'DORMOUSE_CEILING_DISK_BYTES',
        defaultText: 'the size of the file system of the data directory, at least 10 GiB',
        summary: 'The same for `limits.diskBytes`, and for the size of a volume.',
      },
    ),
    files: setting(
      z.int().min(MIN_FILES),
      ({ files }) => Math.max(DEFAULT_FILES, files === 0 ? MAX_FILES : files),
      {
        env: 'DORMOUSE_CEILING_FILES',
        defaultText: 'the inodes of that file system, at least 1,000,000',
        summary: 'The same for `limits.files`, and for the number of files in a volume.',
      },
    ),
  },
  volumeBytes: setting(z.int().min(MIN_DISK_BYTES).max(MAX_DISK_BYTES), DEFAULT_VOLUME_BYTES, {
    env: 'DORMOUSE_VOLUME_BYTES',
    summary: 'Size of volumes created without `sizeBytes`.',
  }),
}

/** Enough that the kernel kills nothing of the host, and not so much that a small host cannot start a sandbox. */
function minFreeMemoryBytes({ memoryBytes }: HostFacts): number {
  return clamp(memoryBytes * WATERMARK_SHARE, 256 * MIB, 2 * GIB)
}

/** A table of a gigabyte with a copy or two of it fits; more than 8 GiB would let a mistake fill a host too fast. */
function defaultMemoryBytes({ memoryBytes }: HostFacts): number {
  const bytes = clamp(memoryBytes * DEFAULT_SHARE, DEFAULT_MEMORY_BYTES, 8 * GIB)
  return bytes - (bytes % MIB)
}

function defaultCpus({ cpus }: HostFacts): number {
  return clamp(Math.floor(cpus * DEFAULT_SHARE), DEFAULT_CPUS, 4)
}

function clamp(value: number, least: number, most: number): number {
  return Math.round(Math.min(most, Math.max(least, value)))
}
