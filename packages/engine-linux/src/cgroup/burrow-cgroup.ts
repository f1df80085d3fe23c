import { writeFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BurrowLimits, DormouseError } from '@dormouse/contracts'
import type { BurrowUsage } from '@dormouse/engine'
import {
  type Controller,
  cpuV1,
  cpuV2,
  memoryV1,
  memoryV2,
  pidsAny,
  readKey,
  readNumber,
  readText,
  unlimited,
  writeNow,
} from './controllers.ts'
import type { Hierarchies } from './find-hierarchies.ts'
import { type MemoryParts, readMemoryParts } from './memory-parts.ts'
import { applyAtMemoryLimit, type MemoryDirectory } from './memory-pause.ts'

/** How long removal waits for killed processes to end. A large process tree frees its memory first. */
const EMPTY_TIMEOUT_MS = 20_000
const EMPTY_POLL_MS = 2
/** The kernel freezes a task in an uninterruptible system call only after the call returns. */
const FREEZE_TIMEOUT_MS = 10_000
const MAKE_ATTEMPTS = 5
const V2_CONTROLLERS = ['memory', 'cpu', 'pids'] as const

interface Part {
  readonly controller: Controller
  readonly directory: string
}

/** The cgroup directories of one burrow: one in each hierarchy in use. */
export class BurrowCgroup {
  readonly #parts: readonly Part[]
  readonly #v2: string | undefined
  readonly #freezer: string | undefined
  readonly #directory: (
    controller: 'memory' | 'cpuacct' | 'pids',
  ) => { path: string; isV2: boolean } | undefined

  constructor(hierarchies: Hierarchies, name: string) {
    const { v1, v2 } = hierarchies
    const v2Directory = v2 === undefined ? undefined : join(v2.path, name)
    const part = (controller: 'memory' | 'cpu' | 'pids', inV1: Controller, inV2: Controller): Part[] => {
      const mount = v1.get(controller)
      if (mount !== undefined) return [{ controller: inV1, directory: join(mount, name) }]
      return v2Directory !== undefined && v2?.controllers.has(controller)
        ? [{ controller: inV2, directory: v2Directory }]
        : []
    }
    const accounting = v1.get('cpuacct')
    const freezer = v1.get('freezer')
    this.#freezer = freezer === undefined ? undefined : join(freezer, name)
    this.#parts = [
      ...part('memory', memoryV1, memoryV2),
      ...part('cpu', cpuV1, cpuV2),
      ...part('pids', pidsAny, pidsAny),
      ...(accounting === undefined ? [] : [{ controller: unlimited, directory: join(accounting, name) }]),
      ...(v2Directory === undefined && freezer !== undefined
        ? [{ controller: unlimited, directory: join(freezer, name) }]
        : []),
      // Even without controllers, the v2 directory can kill and freeze all members in one step.
      ...(v2Directory === undefined ? [] : [{ controller: unlimited, directory: v2Directory }]),
    ]
    this.#v2 = v2Directory
    this.#directory = (controller) => {
      const mount = v1.get(controller)
      if (mount !== undefined) return { path: join(mount, name), isV2: false }
      return v2Directory === undefined ? undefined : { path: v2Directory, isV2: true }
    }
  }

  /** Every directory that a process must join to be a member. Some controllers share one. */
  get directories(): readonly string[] {
    return [...new Set(this.#parts.map(({ directory }) => directory))]
  }

  get memory(): MemoryDirectory | undefined {
    return this.#directory('memory')
  }

  /** Post: the directories exist with these limits. Pre: nothing is in them. */
  async create(limits: BurrowLimits): Promise<void> {
    for (const directory of this.directories) await this.#make(directory)
    await this.apply(limits)
  }

  /** An engine that ends removes empty parents, perhaps at this moment. Then they are made again. */
  async #make(directory: string, attempts = MAKE_ATTEMPTS): Promise<void> {
    try {
      await mkdir(dirname(directory), { recursive: true })
      if (directory === this.#v2) await enableBelow(dirname(directory))
      await mkdir(directory)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempts === 1) throw error
      await this.#make(directory, attempts - 1)
    }
  }

  /** Sets the limits of a burrow that has just been made with the limits `made`: writes what differs. */
  async applyToNew(limits: BurrowLimits, made: BurrowLimits): Promise<void> {
    for (const { controller, directory } of this.#parts)
      if (controller.value(limits) !== controller.value(made))
        await controller.apply(directory, limits, writeNow)
    if (limits.atMemoryLimit === 'pause') await applyAtMemoryLimit(this.memory, limits)
  }

  /** Sets limits. If the kernel refuses one, sets the `previous` limits again. */
  async apply(limits: BurrowLimits, previous?: BurrowLimits): Promise<void> {
    try {
      for (const { controller, directory } of this.#parts) await controller.apply(directory, limits)
      // Nothing to write for nearly all burrows, which are new and have the default.
      if (limits.atMemoryLimit === 'pause' || previous?.atMemoryLimit === 'pause')
        await applyAtMemoryLimit(this.memory, limits)
    } catch (cause) {
      if (previous !== undefined) await this.apply(previous)
      const isInUse = (cause as NodeJS.ErrnoException).code === 'EBUSY'
      if (isInUse) {
        throw new DormouseError('conflict', 'The sandbox uses more memory than the new limit allows.', {
          hint: 'Free memory inside first, or choose a higher limit.',
          details: { field: 'memoryBytes' },
          cause,
        })
      }
      throw cause
    }
  }

  async usage(): Promise<BurrowUsage> {
    const memory = this.#directory('memory')
    const cpu = this.#directory('cpuacct')
    const pids = this.#directory('pids')
    const file = (at: typeof memory, v1: string, v2: string) =>
      at === undefined ? '' : join(at.path, at.isV2 ? v2 : v1)
    const [memoryBytes, memoryPeakBytes, cpuMs, pidCount, oomKills] = await Promise.all([
      readNumber(file(memory, 'memory.usage_in_bytes', 'memory.current')),
      readNumber(file(memory, 'memory.max_usage_in_bytes', 'memory.peak')),
      cpu?.isV2 === true
        ? readKey(join(cpu.path, 'cpu.stat'), 'usage_usec').then((us) => us / 1e3)
        : readNumber(file(cpu, 'cpuacct.usage', '')).then((ns) => ns / 1e6),
      readNumber(file(pids, 'pids.current', 'pids.current')),
      readKey(file(memory, 'memory.oom_control', 'memory.events'), 'oom_kill'),
    ])
    return { memoryBytes, memoryPeakBytes, cpuMs, pids: pidCount, oomKills }
  }

  /** Anonymous and shared memory of all members: what remains when the page cache is empty. */
  async anonymousBytes(): Promise<number> {
    const { anonBytes, sharedBytes } = await this.memoryParts()
    return anonBytes + sharedBytes
  }

  memoryParts(): Promise<MemoryParts> {
    return readMemoryParts(join(this.#directory('memory')?.path ?? '', 'memory.stat'))
  }

  /**
   * Post: no member runs until `thaw`. Freezing sends no signal, so processes inside cannot notice. v2 also freezes
   * processes that are being forked; on v1 this repeats until all are frozen.
   */
  async freeze(): Promise<void> {
    if (this.#v2 !== undefined) {
      await writeFile(join(this.#v2, 'cgroup.freeze'), '1')
      await waitUntil(async () => (await readKey(join(this.#v2 as string, 'cgroup.events'), 'frozen')) === 1)
      return
    }
    const state = this.#freezerState()
    await waitUntil(async () => {
      await writeFile(state, 'FROZEN')
      return (await readText(state)) === 'FROZEN'
    })
  }

  async isFrozen(): Promise<boolean> {
    if (this.#v2 !== undefined) return (await readNumber(join(this.#v2, 'cgroup.freeze'))) === 1
    return this.#freezer !== undefined && (await readText(this.#freezerState())) === 'FROZEN'
  }

  /**
   * Synchronous: the kernel only makes the members runnable, the caller waits for that, and a write through the thread
   * pool takes longer.
   */
  async thaw(): Promise<void> {
    if (this.#v2 !== undefined) writeFileSync(join(this.#v2, 'cgroup.freeze'), '0')
    else writeFileSync(this.#freezerState(), 'THAWED')
  }

  /** The directory whose freezer files `freeze` writes; CRIU writes them as well. */
  get freezerDirectory(): string | undefined {
    return this.#v2 ?? this.#freezer
  }

  /** The pids of all members, as the host sees them. */
  async members(): Promise<number[]> {
    const [directory] = this.directories
    return directory === undefined ? [] : membersOf(directory)
  }

  /** Like `members`, for each directory in the order of `directories`. A member has to be in all of them. */
  async membersByDirectory(): Promise<number[][]> {
    return Promise.all(this.directories.map((directory) => membersOf(directory)))
  }

  /** Signals every member except these. Only for when no member can fork. */
  async signal(signal: NodeJS.Signals, except: ReadonlySet<number> = new Set()): Promise<void> {
    const [directory] = this.directories
    if (directory !== undefined) await signalMembers(directory, signal, except)
  }

  /** Sends SIGKILL to all members if no member can escape: in one step on v2, or while they are frozen on v1. */
  async kill(): Promise<void> {
    if (this.#v2 !== undefined)
      await writeFile(join(this.#v2, 'cgroup.kill'), '1', { flag: 'r+' }).catch(ignoreAbsent)
    // An error means that the cgroup is gone already.
    else if (await this.isFrozen().catch(() => false)) {
      // On v1, frozen members end only after a thaw. They end before they run.
      await this.signal('SIGKILL')
      await this.thaw()
    }
  }

  #freezerState(): string {
    if (this.#freezer === undefined)
      throw new DormouseError('host_unsupported', 'This host has no cgroup freezer.')
    return join(this.#freezer, 'freezer.state')
  }

  /** Post: no directory is left and no member is alive. Pre: `kill` was called, so nothing inside forks any more. */
  async remove(): Promise<void> {
    const deadline = performance.now() + EMPTY_TIMEOUT_MS
    for (const directory of this.directories) await removeWhenEmpty(directory, deadline)
  }
}

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + FREEZE_TIMEOUT_MS
  while (!(await holds())) {
    if (performance.now() > deadline)
      throw new DormouseError(
        'conflict',
        `The processes did not freeze within ${FREEZE_TIMEOUT_MS / 1000} s.`,
      )
    await sleep(1)
  }
}

/** Enables controllers for the children of a v2 directory. Each level has to pass them on. */
export async function enableBelow(directory: string): Promise<void> {
  const chain: string[] = []
  for (let at = directory; ; at = dirname(at)) {
    // A directory without this file is above the mount point.
    const controllers = await readFile(join(at, 'cgroup.controllers'), 'utf8').catch(() => undefined)
    if (controllers === undefined) break
    chain.unshift(at)
  }
  for (const level of chain) {
    const available = (await readFile(join(level, 'cgroup.controllers'), 'utf8')).trim().split(/\s+/)
    const wanted = V2_CONTROLLERS.filter((name) => available.includes(name))
    if (wanted.length === 0) return
    await writeFile(join(level, 'cgroup.subtree_control'), wanted.map((name) => `+${name}`).join(' '))
  }
}

async function removeWhenEmpty(directory: string, deadline: number): Promise<void> {
  for (;;) {
    try {
      // Code inside a burrow cannot make sub-groups, but an interrupted CRIU may have left one.
      for (const entry of await readdir(directory, { withFileTypes: true })) {
        if (entry.isDirectory()) await removeWhenEmpty(join(directory, entry.name), deadline)
      }
      await rmdir(directory)
      return
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT') return
      if (code !== 'EBUSY' || performance.now() > deadline) throw error
      // Programs of ours join one hierarchy after the other: one that had not joined v2 yet escaped the kill.
      await signalMembers(directory, 'SIGKILL')
      await sleep(EMPTY_POLL_MS)
    }
  }
}

/** Returns none when the group is gone or disappears while it is read. */
async function membersOf(directory: string): Promise<number[]> {
  const text = await readText(join(directory, 'cgroup.procs')).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' && error.code !== 'ENODEV') throw error
    return ''
  })
  // The kernel says 0 for a process outside of our PID namespace; a signal to 0 would go to our own group.
  return text
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 0)
}

async function signalMembers(
  directory: string,
  signal: NodeJS.Signals,
  except: ReadonlySet<number> = new Set(),
): Promise<void> {
  for (const pid of await membersOf(directory)) {
    if (except.has(pid)) continue
    try {
      process.kill(pid, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

function ignoreAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
