import { readFile } from 'node:fs/promises'
import type { BurrowMemory } from '@dormouse/engine'

/** The kernel looks at every page: about 20 ms for each gigabyte of heap. Whoever has so much that this is passed is not worth the rest. */
const LOOK_MAX_MS = 1_000
const KIBIBYTE = 1024

/**
 * The memory of these processes. What only anonymous mappings and shared memory hold cannot be anybody's but theirs, and the kernel divides a
 * page among those that map it, so that their parts of it add up to once. Pages of files say nothing by being dirty or mapped by one
 * process alone: those of a snapshot are both until the disk has them and a sibling maps them.
 * undefined: they have ended, or are too many to look at.
 */
export async function measureMemory(pids: readonly number[]): Promise<BurrowMemory | undefined> {
  const deadline = performance.now() + LOOK_MAX_MS
  let privateBytes = 0
  let residentBytes = 0
  let proportionalBytes = 0
  // One after the other: the pages of one burrow take one thread of this process, not all.
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

/** Nothing for one that has ended meanwhile. */
async function readRollup(pid: number): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
  return new Map([...text.matchAll(/^(\w+):\s+(\d+) kB$/gm)].map(([, name = '', kib = '']) => [name, kib]))
}
