import { readFileSync, statfsSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname } from 'node:path'
import {
  DEFAULT_CPUS,
  DEFAULT_DISK_BYTES,
  DEFAULT_FILES,
  DEFAULT_MEMORY_BYTES,
  DEFAULT_PIDS,
  DEFAULT_VOLUME_BYTES,
  MAX_FILES,
  MAX_PIDS,
} from '@dormouse/contracts'

/** What the defaults depend on. */
export interface HostFacts {
  readonly cpus: number
  readonly memoryBytes: number
  /** The file system that holds the data directory. */
  readonly diskBytes: number
  /** Inodes of that file system; 0 when it has no fixed number. */
  readonly files: number
  /** Process ids that the kernel has. */
  readonly pids: number
}

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const WATERMARK_SHARE = 0.05

export function readHostFacts(dataDir: string): HostFacts {
  const { blocks, bsize, files } = fileSystemOf(dataDir)
  const pids = Number(readFileSync('/proc/sys/kernel/pid_max', 'latin1'))
  return { cpus: availableParallelism(), memoryBytes: totalmem(), diskBytes: blocks * bsize, files, pids }
}

export function defaultConfig({ cpus, memoryBytes, diskBytes, files, pids }: HostFacts) {
  // Kept for the host itself: enough that nothing of it is killed, not so much that a small host could not start a sandbox.
  const minFreeMemoryBytes = clamp(memoryBytes * WATERMARK_SHARE, 256 * MIB, 2 * GIB)
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
    minFreeMemoryBytes,
    // A standby must always find room for its snapshot.
    minFreeDiskBytes: clamp(diskBytes * WATERMARK_SHARE, GIB, 20 * GIB),
    minFreeFiles: files === 0 ? 0 : clamp(files * WATERMARK_SHARE, 1_000, 500_000),
    // More than the host has is of no use to a sandbox, and less than the defaults would refuse those who ask for nothing.
    ceilings: {
      memoryBytes: Math.max(DEFAULT_MEMORY_BYTES, memoryBytes - minFreeMemoryBytes),
      cpus: Math.max(DEFAULT_CPUS, cpus),
      pids: clamp(pids / 2, DEFAULT_PIDS, MAX_PIDS),
      diskBytes: Math.max(DEFAULT_DISK_BYTES, diskBytes),
      files: Math.max(DEFAULT_FILES, files === 0 ? MAX_FILES : files),
    },
    volumeBytes: DEFAULT_VOLUME_BYTES,
    shutdownTimeoutMs: 60_000,
    // More than a reader would read, and as much as one run may have in plots; of that, a few runs for each sandbox.
    journal: { keepRuns: 1_000, keepDays: 30, runBytes: 64 * MIB, sandboxBytes: 256 * MIB },
    // A week is soon enough to go back to a snapshot that is still there; a tenth of what a cheap disk reads leaves it to others.
    scrub: { periodDays: 7, bytesPerSecond: 32 * MIB, delayMs: 30_000 },
    // A compiler needs more than most sandboxes; what a build may write becomes a template that stays.
    builds: {
      atOnce: 4,
      timeoutMs: 1_800_000,
      memoryBytes: 2 * GIB,
      cpus: 2,
      pids: 1024,
      diskBytes: 10 * GIB,
      files: DEFAULT_FILES,
    },
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
      // Two descriptors each, and half a gigabyte if the other end of every one of them is stalled.
      maxConnectionsTotal: 4096,
    },
    logLevel: 'info' as const,
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.round(Math.min(most, Math.max(least, value)))
}

/** The directory may not be there yet: then its nearest ancestor says where it will be. */
function fileSystemOf(path: string): { blocks: number; bsize: number; files: number } {
  try {
    return statfsSync(path)
  } catch (error) {
    if (dirname(path) === path) throw error
    return fileSystemOf(dirname(path))
  }
}
