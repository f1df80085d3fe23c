import { readFile } from 'node:fs/promises'
import type { BurrowMemory } from '@dormouse/engine'

/** The kernel visits every page, about 20 ms for each gigabyte of heap. Measuring stops after this. */
const LOOK_MAX_MS = 1_000
const KIBIBYTE = 1024

/**
 * Measures the memory of these processes. Anonymous and shared memory belongs to them alone, and the kernel divides a
 * page among the processes that map it, so the parts add up to one. Pages of files prove nothing by being dirty or
 * mapped by one process: pages of a snapshot are both, until the disk has them and a sibling maps them.
 * Returns undefined when the processes have ended, or have too many pages to visit.
 */
export async function measureMemory(pids: readonly number[]): Promise<BurrowMemory | undefined> {
  const deadline = performance.now() + LOOK_MAX_MS
  let privateBytes = 0
  let residentBytes = 0
  let proportionalBytes = 0
  // One process after the other: a burrow occupies one thread of this process, not all.
  for (const pid of pids) {
    if (performance.now() > deadline) return undefined
    const rollup = await readRollup(pid)
    const read = (name: string) => Number(rollup.get(name) ?? 0) * KIBIBYTE
    privateBytes += read('Pss_Anon') + read('Pss_Shmem')
    residentBytes += read('Rss')
    proportionalBytes += read('Pss')
  }
  if (residentBytes === 0) return undefined
  return { privateBytes, sharedBytes: Math.max(0, residentBytes - privateBytes), proportionalBytes }
}

/** Empty for a process that has ended meanwhile. */
async function readRollup(pid: number): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
  return new Map([...text.matchAll(/^(\w+):\s+(\d+) kB$/gm)].map(([, name = '', kib = '']) => [name, kib]))
}
