import { readFile } from 'node:fs/promises'
import type { BurrowMemory, CopiedProgram } from '@dormouse/engine'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'

/** The kernel visits every page, about 20 ms for each gigabyte of heap. Measuring stops after this. */
const LOOK_MAX_MS = 1_000
const KIBIBYTE = 1024
/** What maps the guard, at its path inside. */
const GUARD = `/.dormouse/${GUARD_IN_TOOLS}`
const COPIED_MAX = 5

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
  const copied = new Map<string, number>()
  // One process after the other: a burrow occupies one thread of this process, not all.
  for (const pid of pids) {
    if (performance.now() > deadline) return undefined
    const rollup = await readRollup(pid)
    const read = (name: string) => Number(rollup.get(name) ?? 0) * KIBIBYTE
    privateBytes += read('Pss_Anon') + read('Pss_Shmem')
    residentBytes += read('Rss')
    proportionalBytes += read('Pss')
    const program = await findUnguarded(pid)
    if (program !== undefined) copied.set(program, (copied.get(program) ?? 0) + read('Pss_Anon'))
  }
  if (residentBytes === 0) return undefined
  const sharedBytes = Math.max(0, residentBytes - privateBytes)
  return { privateBytes, sharedBytes, proportionalBytes, copied: largest(copied) }
}

function largest(copied: ReadonlyMap<string, number>): CopiedProgram[] {
  const programs = [...copied].map(([program, bytes]) => ({ program, bytes }))
  return programs.sort((one, other) => other.bytes - one.bytes).slice(0, COPIED_MAX)
}

/** The name of a program that the guard is not loaded in. Undefined for others, and for processes that have ended. */
async function findUnguarded(pid: number): Promise<string | undefined> {
  try {
    const [maps, status] = await Promise.all(
      ['maps', 'status'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8')),
    )
    // A program that has ended has no memory, and PID 1 of the burrow is in no snapshot.
    if (maps === '' || /^NSpid:.*\t1$/m.test(status ?? '') || maps?.includes(GUARD)) return undefined
    return /^Name:\t(.*)$/m.exec(status ?? '')?.[1]?.replaceAll(/[^\x20-\x7e]/g, '?')
  } catch {
    return undefined
  }
}

/** Empty for a process that has ended meanwhile. */
async function readRollup(pid: number): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
  return new Map([...text.matchAll(/^(\w+):\s+(\d+) kB$/gm)].map(([, name = '', kib = '']) => [name, kib]))
}
