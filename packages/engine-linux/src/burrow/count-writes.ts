import { readFile } from 'node:fs/promises'

/**
 * What processes have caused to be written to disks, as the kernel counts it when pages become dirty. A process that is waited for leaves its count to
 * its parent, so the sum over all members of a burrow goes on.
 */
export async function countWrites(pids: readonly number[]): Promise<number> {
  const counts = await Promise.all(pids.map(writesOf))
  return counts.reduce((sum, count) => sum + count, 0)
}

/** 0 for one that has ended, and where the kernel does not count. */
async function writesOf(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/io`, 'latin1').catch(() => '')
  return Number(/^write_bytes: (\d+)$/m.exec(text)?.[1] ?? 0)
}
