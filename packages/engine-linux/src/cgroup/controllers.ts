import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BurrowLimits } from '@dormouse/contracts'

/** How one controller is set and read in one directory. */
export interface Controller {
  readonly apply: (directory: string, limits: BurrowLimits) => Promise<void>
}

const CPU_PERIOD_US = 100_000
/** How much more than its limit a burrow gets while it is saved at that limit: enough also for a small one. */
const HEADROOM_SHARE = 0.25
const HEADROOM_MIN_BYTES = 64 * 1024 ** 2

/** The memory beyond which Linux kills in any case. A burrow that is paused at its limit is saved with more. */
export function highestLimit({ memoryBytes, atMemoryLimit }: BurrowLimits): number {
  if (atMemoryLimit !== 'pause') return memoryBytes
  return memoryBytes + Math.max(HEADROOM_MIN_BYTES, Math.floor(memoryBytes * HEADROOM_SHARE))
}

export const memoryV1: Controller = {
  async apply(directory, { memoryBytes }) {
    const limit = join(directory, 'memory.limit_in_bytes')
    const withSwap = join(directory, 'memory.memsw.limit_in_bytes')
    // At every step the kernel requires limit <= limit with swap, so the direction decides which one to set first.
    const grows = memoryBytes > Number(await readText(limit))
    if (grows) await writeIfPresent(withSwap, memoryBytes)
    await writeFile(limit, String(memoryBytes))
    if (!grows) await writeIfPresent(withSwap, memoryBytes)
    // v1 counts socket buffers separately.
    await writeIfPresent(join(directory, 'memory.kmem.tcp.limit_in_bytes'), Math.floor(memoryBytes / 4))
  },
}

export const memoryV2: Controller = {
  async apply(directory, limits) {
    await writeFile(join(directory, 'memory.max'), String(highestLimit(limits)))
    await writeIfPresent(join(directory, 'memory.swap.max'), 0)
  },
}

export const cpuV1: Controller = {
  async apply(directory, { cpus }) {
    await writeFile(join(directory, 'cpu.cfs_period_us'), String(CPU_PERIOD_US))
    await writeFile(join(directory, 'cpu.cfs_quota_us'), String(Math.round(cpus * CPU_PERIOD_US)))
  },
}

export const cpuV2: Controller = {
  async apply(directory, { cpus }) {
    await writeFile(join(directory, 'cpu.max'), `${Math.round(cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`)
  },
}

export const pidsAny: Controller = {
  async apply(directory, { pids }) {
    await writeFile(join(directory, 'pids.max'), String(pids))
  },
}

/** Accounting and freezing only: nothing to limit. */
export const unlimited: Controller = { async apply() {} }

/**
 * Without the thread pool, which takes ten times as long as the kernel: these files are not on a disk, and the server
 * reads several of each running sandbox twice a second.
 */
export async function readText(path: string): Promise<string> {
  return readFileSync(path, 'utf8').trim()
}

/** Reads a file with one number; 0 where this kernel does not have the file. */
export async function readNumber(path: string): Promise<number> {
  return Number(await readText(path).catch(() => '0'))
}

/** Reads one value of a file of `key value` lines; 0 where the file or the key is missing. */
export async function readKey(path: string, key: string): Promise<number> {
  return keyOf(await readText(path).catch(() => ''), key)
}

/** One value of a text of `key value` lines; 0 where the key is missing. */
export function keyOf(text: string, key: string): number {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${key} `))
  return Number(line?.slice(key.length + 1) ?? '0')
}

export async function writeIfPresent(path: string, value: number): Promise<void> {
  await writeFile(path, String(value), { flag: 'r+' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
}
