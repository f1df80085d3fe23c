import { readFile } from 'node:fs/promises'

/**
 * Bytes that these processes wrote to disks, as the kernel counts them when pages become dirty. A process that ends
 * leaves its count to its parent, so the sum over all processes of a burrow never falls.
 */
export async function countWrites(pids: readonly number[]): Promise<number> {
  const counts = await Promise.all(pids.map(writesOf))
  return counts.reduce((sum, count) => sum + count, 0)
}

/** 0 for a process that has ended, and where the kernel does not count. */
async function writesOf(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/io`, 'latin1').catch(() => '')
  return Number(/^write_bytes: (\d+)$/m.exec(text)?.[1] ?? 0)
}
