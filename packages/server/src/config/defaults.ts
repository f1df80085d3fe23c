import { statfsSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname } from 'node:path'

/** What the defaults depend on. */
export interface HostFacts {
  readonly cpus: number
  readonly memoryBytes: number
  /** The file system that holds the data directory. */
  readonly diskBytes: number
}

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const WATERMARK_SHARE = 0.05

export function readHostFacts(dataDir: string): HostFacts {
  return { cpus: availableParallelism(), memoryBytes: totalmem(), diskBytes: diskBytes(dataDir) }
}

export function defaultConfig({ cpus, memoryBytes, diskBytes }: HostFacts) {
  return {
    host: '127.0.0.1',
    port: 7070,
    allowInsecureBind: false,
    // Nobody gets in without a key that was added.
    ssh: { enabled: true, host: '127.0.0.1', port: 2222 },
    idleTimeoutMs: 15_000,
    storeAfterMs: 60_000,
    idleConnectionMs: 300_000,
    // A restore is bound by the CPU: more at once than there are CPUs only makes all of them late.
    restoresAtOnce: cpus,
    // Kept for the host itself: enough that nothing of it is killed, not so much that a small host could not start a sandbox.
    minFreeMemoryBytes: clamp(memoryBytes * WATERMARK_SHARE, 256 * MIB, 2 * GIB),
    // A standby must always find room for its snapshot.
    minFreeDiskBytes: clamp(diskBytes * WATERMARK_SHARE, GIB, 20 * GIB),
    shutdownTimeoutMs: 60_000,
    journal: { keepRuns: 1_000, keepDays: 30 },
    prices: {
      currency: 'USD',
      runningCpuSecond: 0.000014,
      memoryGbSecond: 0.0000045,
      storedGbHour: 0.0001,
      alwaysOnCpuSecond: 0.000014,
      alwaysOnMemoryGbSecond: 0.0000045,
    },
    network: {
      defaultMode: 'public' as const,
      // More than a browser opens, and a thousand sandboxes that do it still fit into what a process may have open.
      maxConnections: 512,
    },
    logLevel: 'info' as const,
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.round(Math.min(most, Math.max(least, value)))
}

/** The directory may not be there yet: then its nearest ancestor says where it will be. */
function diskBytes(path: string): number {
  try {
    const { blocks, bsize } = statfsSync(path)
    return blocks * bsize
  } catch (error) {
    if (dirname(path) === path) throw error
    return diskBytes(dirname(path))
  }
}
