import { closeSync, ftruncateSync, mkdirSync, openSync, symlinkSync, writeSync } from 'node:fs'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import type { BurrowLimits } from '@dormouse/contracts'
import type { BurrowUsage, ShownDisk } from '@dormouse/engine'
import type { MemoryParts } from '../cgroup/memory-parts.ts'
import { describeMeminfo, describeStat } from './describe-memory.ts'
import { listProcessors } from './list-processors.ts'

/** Programs see a change of their memory that is smaller than this with the next larger one. */
const STEP_BYTES = 1024 ** 2
const CPU_PERIOD_US = 100_000

/** What programs inside read about their burrow. */
interface Shown {
  readonly limits: BurrowLimits
  readonly usage: Pick<BurrowUsage, 'memoryBytes' | 'memoryPeakBytes' | 'pids' | 'oomKills'>
  readonly memory: MemoryParts
  readonly disk: Required<ShownDisk>
}

const NOTHING_USED: Pick<Shown, 'usage' | 'memory' | 'disk'> = {
  usage: { memoryBytes: 0, memoryPeakBytes: 0, pids: 0, oomKills: 0 },
  memory: { anonBytes: 0, fileBytes: 0, activeFileBytes: 0, inactiveFileBytes: 0, sharedBytes: 0 },
  disk: { bytes: 0, files: 0, usedBytes: 0, usedFiles: 0 },
}

/**
 * The files by which programs inside see the limits of their burrow, where the kernel would show the host. dormouse-init
 * mounts them over /proc/meminfo, /proc/cpuinfo and others (native/src/show-limits.c), and the guard reads `numbers`
 * (native/src/guard-limits.c).
 *
 * They are rewritten in place: a mounted file stays the file that it was, and a process that has one open reads on. All
 * writes are small and synchronous; the threads for asynchronous I/O are busy during wakes. A burrow works without
 * these files, so a write that fails is left out: an earlier server may have started the burrow without them, and it
 * may end at any moment.
 */
export class ShownLimits {
  readonly #dir: string
  readonly #written: Map<string, string>
  #shown: Shown

  /** `isFresh`: the files are as `make` made them with these limits. */
  constructor(dir: string, limits: BurrowLimits, { isFresh = false } = {}) {
    this.#dir = dir
    this.#shown = { limits, ...NOTHING_USED }
    this.#written = new Map(isFresh ? describe(this.#shown) : [])
  }

  /** Makes the files of a new burrow. Throws when it cannot: dormouse-init mounts each of them. */
  static make(dir: string, limits: BurrowLimits): void {
    mkdirSync(join(dir, 'cgroup', 'memory'), { recursive: true, mode: 0o755 })
    for (const [name, text] of describe({ limits, ...NOTHING_USED })) {
      const fd = openSync(join(dir, name), 'wx', 0o444)
      writeSync(fd, text)
      closeSync(fd)
    }
    // Programs that find the controllers of cgroup v1 in /proc/self/cgroup look for these.
    symlinkSync('../memory.max', join(dir, 'cgroup', 'memory', 'memory.limit_in_bytes'))
    symlinkSync('../memory.max', join(dir, 'cgroup', 'memory', 'memory.soft_limit_in_bytes'))
    symlinkSync('../memory.current', join(dir, 'cgroup', 'memory', 'memory.usage_in_bytes'))
  }

  setLimits(limits: BurrowLimits): void {
    this.#show({ ...this.#shown, limits })
  }

  /** What is left out stays as it was. */
  setDisk(disk: ShownDisk): void {
    this.#show({ ...this.#shown, disk: { ...this.#shown.disk, ...disk } })
  }

  /** Reads the parts of the memory only if programs would see a difference. */
  async setUsage(usage: Shown['usage'], readParts: () => Promise<MemoryParts>): Promise<void> {
    const last = this.#shown.usage
    const isSame =
      Math.abs(usage.memoryBytes - last.memoryBytes) < STEP_BYTES &&
      Math.abs(usage.memoryPeakBytes - last.memoryPeakBytes) < STEP_BYTES &&
      usage.oomKills === last.oomKills &&
      usage.pids === last.pids
    if (isSame) return
    const memory = await readParts()
    this.#show({ ...this.#shown, usage, memory })
  }

  #show(shown: Shown): void {
    this.#shown = shown
    for (const [name, text] of describe(shown)) {
      const before = this.#written.get(name)
      if (before === text) continue
      try {
        rewrite(join(this.#dir, name), text)
        this.#written.set(name, text)
      } catch {
        return
      }
    }
  }
}

/**
 * The new text comes first and what is left of the old one is cut off afterwards: a reader in between finds at least
 * the first line complete.
 */
function rewrite(path: string, text: string): void {
  const fd = openSync(path, 'r+')
  try {
    ftruncateSync(fd, writeSync(fd, text, 0))
  } finally {
    closeSync(fd)
  }
}

function describe({ limits, usage, memory, disk }: Shown): [name: string, text: string][] {
  const { memoryBytes, pids } = limits
  const processors = listProcessors()
  const cpus = Math.min(Math.ceil(limits.cpus), processors.length)
  // A limit above what the host has does not make memory.
  const totalBytes = Math.min(memoryBytes, totalmem())
  // The kernel drops cached files before it refuses memory.
  const cachedBytes = memory.activeFileBytes + memory.inactiveFileBytes
  const availableBytes = Math.min(totalBytes, Math.max(0, totalBytes - usage.memoryBytes + cachedBytes))
  const numbers = [cpus, totalBytes, availableBytes, disk.bytes, disk.usedBytes, disk.files, disk.usedFiles]
  const cgroup: readonly [string, string | number][] = [
    ['cgroup.controllers', 'cpu memory pids'],
    ['cpu.max', `${Math.round(limits.cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`],
    ['memory.current', usage.memoryBytes],
    ['memory.events', `low 0\nhigh 0\nmax 0\noom ${usage.oomKills}\noom_kill ${usage.oomKills}`],
    ['memory.high', 'max'],
    ['memory.max', memoryBytes],
    ['memory.peak', usage.memoryPeakBytes],
    ['memory.stat', describeStat(memory)],
    ['memory.swap.current', 0],
    ['memory.swap.max', 0],
    ['pids.current', usage.pids],
    ['pids.max', pids],
  ]
  return [
    ['meminfo', describeMeminfo(memory, { totalBytes, usedBytes: usage.memoryBytes, availableBytes })],
    ['numbers', `${numbers.map(Math.round).join(' ')}\n`],
    ['online', cpus === 1 ? '0\n' : `0-${cpus - 1}\n`],
    ['cpuinfo', `${processors.slice(0, cpus).join('\n\n')}\n\n`],
    ...cgroup.map(([name, text]): [string, string] => [join('cgroup', name), `${text}\n`]),
  ]
}
