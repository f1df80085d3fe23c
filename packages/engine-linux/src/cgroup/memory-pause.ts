import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Mutex } from '@dormouse/async'
import type { BurrowLimits } from '@dormouse/contracts'
import { highestLimit, keyOf, readKey, readNumber, readText, writeIfPresent } from './controllers.ts'

/** Where the memory of a burrow is counted. */
export interface MemoryDirectory {
  readonly path: string
  readonly isV2: boolean
}

/** Together: at most 800 MiB a second, so that a process that grows on does not use all of it before the freeze. */
const STEP_BYTES = 8 * 1024 ** 2
const STEP_MS = 10
/** On v2: processes that use this share of the limit for anonymous memory are slowed down, not only page cache. */
export const FULL_SHARE = 0.95

/**
 * v1 can let processes wait at the limit instead of killing one (`memory.oom_control`). v2 cannot; there the limit
 * becomes `memory.high`, above which Linux slows processes down until they nearly stand still, and `memory.max` is a
 * little higher.
 */
export async function applyAtMemoryLimit(
  memory: MemoryDirectory | undefined,
  { memoryBytes, atMemoryLimit }: BurrowLimits,
): Promise<void> {
  if (memory === undefined) return
  const isPause = atMemoryLimit === 'pause'
  if (!memory.isV2) {
    await writeFile(join(memory.path, 'memory.oom_control'), isPause ? '1' : '0')
    return
  }
  await writeFile(join(memory.path, 'memory.high'), isPause ? String(memoryBytes) : 'max')
}

/** What a burrow does whose processes wait at its memory limit. */
export class MemoryPause {
  readonly #memory: MemoryDirectory | undefined
  readonly #raising = new Mutex()
  #users = 0

  constructor(memory: MemoryDirectory | undefined) {
    this.#memory = memory
  }

  async isWaiting({ memoryBytes, atMemoryLimit }: BurrowLimits): Promise<boolean> {
    if (this.#memory === undefined || atMemoryLimit !== 'pause') return false
    const { path, isV2 } = this.#memory
    if (!isV2) return (await readKey(join(path, 'memory.oom_control'), 'under_oom')) === 1
    // A burrow that ended meanwhile has no cgroup to read.
    const text = await readText(join(path, 'memory.stat')).catch(() => '')
    return keyOf(text, 'anon') + keyOf(text, 'shmem') >= memoryBytes * FULL_SHARE
  }

  /** See `Burrow.withHeadroom`. */
  async withHeadroom<Value>(limits: () => BurrowLimits, work: () => Promise<Value>): Promise<Value> {
    const memory = this.#memory
    if (memory === undefined || limits().atMemoryLimit !== 'pause' || this.#users > 0) return work()
    this.#users += 1
    const stop = new AbortController()
    const helping = memory.isV2
      ? setHigh(memory, 'max')
      : this.#raiseWhileWaiting(memory, limits, stop.signal)
    // What fails here is a burrow that has ended, or one whose agent then does not answer.
    const helped = helping.catch(() => {})
    try {
      return await work()
    } finally {
      stop.abort()
      await helped
      this.#users -= 1
      // The kernel refuses a limit below the use. Then the higher one stays, until the limits are set again.
      await putBack(memory, limits()).catch(() => {})
    }
  }

  /**
   * Gives stopped processes all the headroom at once, inside `withHeadroom`. CRIU writes to their memory, and for that
   * the kernel does not wait at the limit: it fails. Pre: nothing runs that would use it up.
   */
  async giveAll(limits: BurrowLimits): Promise<void> {
    const memory = this.#memory
    if (memory === undefined || memory.isV2 || this.#users === 0) return
    // A burrow that has ended has no cgroup.
    await this.#raising.run(() => raise(memory, highestLimit(limits))).catch(() => {})
  }

  async #raiseWhileWaiting(
    memory: MemoryDirectory,
    limits: () => BurrowLimits,
    signal: AbortSignal,
  ): Promise<void> {
    const control = join(memory.path, 'memory.oom_control')
    while (!signal.aborted) {
      // An error ends the loop: the burrow has ended.
      if (keyOf(await readFile(control, 'utf8'), 'under_oom') === 1)
        await this.#raising.run(async () => {
          const currentBytes = await readNumber(join(memory.path, 'memory.limit_in_bytes'))
          await raise(memory, Math.min(highestLimit(limits()), currentBytes + STEP_BYTES))
        })
      await sleep(STEP_MS, undefined, { signal }).catch(() => {})
    }
  }
}

async function raise({ path }: MemoryDirectory, limitBytes: number): Promise<void> {
  // The kernel requires limit <= limit with swap at every step.
  await writeIfPresent(join(path, 'memory.memsw.limit_in_bytes'), limitBytes)
  await writeFile(join(path, 'memory.limit_in_bytes'), String(limitBytes))
}

async function putBack(memory: MemoryDirectory, { memoryBytes }: BurrowLimits): Promise<void> {
  if (memory.isV2) return setHigh(memory, String(memoryBytes))
  const limit = join(memory.path, 'memory.limit_in_bytes')
  if ((await readNumber(limit)) <= memoryBytes) return
  await writeFile(limit, String(memoryBytes), { flag: 'r+' })
  await writeIfPresent(join(memory.path, 'memory.memsw.limit_in_bytes'), memoryBytes)
}

function setHigh({ path }: MemoryDirectory, value: string): Promise<void> {
  return writeFile(join(path, 'memory.high'), value, { flag: 'r+' })
}
