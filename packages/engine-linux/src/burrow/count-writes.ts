import { readFileSync } from 'node:fs'

/**
 * Bytes that these processes wrote to disks, as the kernel counts them when pages become dirty. A process that ends
 * leaves its count to its parent, so the sum over all processes of a burrow never falls.
 */
export function countWrites(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + writesOf(pid), 0)
}

/** 0 for a process that has ended, and where the kernel does not count. */
function writesOf(pid: number): number {
  try {
    return Number(/^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'latin1'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
