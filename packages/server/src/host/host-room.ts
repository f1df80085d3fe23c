import { readFileSync, statfsSync } from 'node:fs'

export interface HostRoom {
  freeMemoryBytes(): Promise<number>
  freeDiskBytes(): Promise<number>
}

/** Wakes at the same time share one answer. */
const FRESH_MS = 100

/** Free memory and disk of this host. Read synchronously: the threads for asynchronous I/O are busy during wakes. */
export function hostRoom(dataDir: string): HostRoom {
  return {
    freeMemoryBytes: remembered(async () => {
      const available = /^MemAvailable:\s+(\d+) kB$/m.exec(readFileSync('/proc/meminfo', 'latin1'))
      return available?.[1] === undefined ? Number.POSITIVE_INFINITY : Number(available[1]) * 1024
    }),
    freeDiskBytes: remembered(async () => freeRoom(dataDir).bytes),
  }
}

/** Free space of the file system that holds this directory. */
export function freeRoom(dataDir: string): { readonly bytes: number; readonly files: number } {
  const { bavail, bsize, ffree, files } = statfsSync(dataDir)
  // A file system without a fixed number of inodes reports 0.
  return { bytes: bavail * bsize, files: files === 0 ? Number.POSITIVE_INFINITY : ffree }
}

function remembered(read: () => Promise<number>): () => Promise<number> {
  let at = Number.NEGATIVE_INFINITY
  let value: Promise<number> | undefined
  return () => {
    const now = performance.now()
    if (value === undefined || now - at > FRESH_MS) {
      at = now
      value = read()
    }
    return value
  }
}
