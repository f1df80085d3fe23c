import { readFileSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BurrowLimits } from '@dormouse/contracts'

/** Writes to a file that exists. */
type Write = (path: string, text: string, options?: { flag: 'r+' }) => Promise<void>

/**
 * Without the thread pool: see `readText`. Only for a burrow with hardly any memory: the kernel may free memory first
 * when a limit becomes lower.
 */
export const writeNow: Write = async (path, text, options) => writeFileSync(path, text, options)

/** How one controller is set in one directory. */
export interface Controller {
  /** What it sets: no other change of limits concerns it. */
  readonly value: (limits: BurrowLimits) => number
  readonly apply: (directory: string, limits: BurrowLimits, write?: Write) => Promise<void>
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
  value: ({ memoryBytes }) => memoryBytes,
  async apply(directory, { memoryBytes }, write = writeFile) {
    const limit = join(directory, 'memory.limit_in_bytes')
    const withSwap = join(directory, 'memory.memsw.limit_in_bytes')
    // At every step the kernel requires limit <= limit with swap, so the direction decides which one to set first.
    const grows = memoryBytes > Number(await readText(limit))
    if (grows) await writeIfPresent(withSwap, memoryBytes, write)
    await write(limit, String(memoryBytes))
    if (!grows) await writeIfPresent(withSwap, memoryBytes, write)
    // v1 counts socket buffers separately.
    await writeIfPresent(
      join(directory, 'memory.kmem.tcp.limit_in_bytes'),
      Math.floor(memoryBytes / 4),
      write,
    )
  },
}

export const memoryV2: Controller = {
  value: highestLimit,
  async apply(directory, limits, write = writeFile) {
    await write(join(directory, 'memory.max'), String(highestLimit(limits)))
    await writeIfPresent(join(directory, 'memory.swap.max'), 0, write)
  },
}

export const cpuV1: Controller = {
  value: ({ cpus }) => cpus,
  async apply(directory, { cpus }, write = writeFile) {
    await write(join(directory, 'cpu.cfs_period_us'), String(CPU_PERIOD_US))
    await write(join(directory, 'cpu.cfs_quota_us'), String(Math.round(cpus * CPU_PERIOD_US)))
  },
}

export const cpuV2: Controller = {
  value: ({ cpus }) => cpus,
  async apply(directory, { cpus }, write = writeFile) {
    await write(join(directory, 'cpu.max'), `${Math.round(cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`)
  },
}

export const pidsAny: Controller = {
  value: ({ pids }) => pids,
  async apply(directory, { pids }, write = writeFile) {
    await write(join(directory, 'pids.max'), String(pids))
  },
}

/** Accounting and freezing only: nothing to limit. */
export const unlimited: Controller = { value: () => 0, async apply() {} }

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

export async function writeIfPresent(path: string, value: number, write: Write = writeFile): Promise<void> {
  await write(path, String(value), { flag: 'r+' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
}
