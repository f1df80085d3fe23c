import { readFileSync, statfsSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname } from 'node:path'

/** Properties of the host that default settings depend on. */
export interface HostFacts {
  readonly cpus: number
  readonly memoryBytes: number
  /** Size of the file system that holds the data directory. */
  readonly diskBytes: number
  /** Inodes of that file system; 0 when their number is not fixed. */
  readonly files: number
  /** The kernel's `pid_max`. */
  readonly pids: number
}

export function readHostFacts(dataDir: string): HostFacts {
  const { blocks, bsize, files } = statNearest(dataDir)
  const pids = Number(readFileSync('/proc/sys/kernel/pid_max', 'latin1'))
  return { cpus: availableParallelism(), memoryBytes: totalmem(), diskBytes: blocks * bsize, files, pids }
}

/** Before the first start the directory does not exist: its nearest existing ancestor is on the same file system. */
function statNearest(path: string): { blocks: number; bsize: number; files: number } {
  try {
    return statfsSync(path)
  } catch (error) {
    if (dirname(path) === path) throw error
    return statNearest(dirname(path))
  }
}
