import { chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { burrowLimitsSchema, newBurrowId } from '@dormouse/contracts'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import type { ParentCgroup } from '../cgroup/parent-cgroup.ts'
import type { Criu } from '../criu/find-criu.ts'
import { FILE_VALIDATION, type StartedCriu, startCriu } from '../criu/run-criu.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { startInit, type WaitingInit } from './launch-init.ts'
import type { BurrowPaths, Layout } from './layout.ts'
import { removeBurrow } from './remove-burrow.ts'

/** Where CRIU finds its knowledge of this kernel when it restores; see criu/kdat.ts. */
const KDAT = '/.dormouse/kdat/burrow'
const RESTORE: readonly [string, ...string[]] = [
  'restore',
  '--restore-detached',
  '--tcp-established',
  '--manage-cgroups=ignore',
  '--file-locks',
  '--link-remap',
  ...FILE_VALIDATION,
]
/** Two wakes in a row do not wait; each spare takes a few megabytes. */
const SPARES = 2
/** However many are expected: beyond this, a fork makes them as it goes. */
const SPARES_MAX = 16
/** Making one is half work and half waiting. */
const MADE_AT_ONCE = 3
/** New spares are made when the host has nothing more urgent to do. */
const REFILL_DELAY_MS = 150

/**
 * A burrow that is yet to be: directories and cgroups made, dormouse-init and CRIU started, members of the cgroups, waiting.
 * Joining cgroups alone takes the kernel tens of milliseconds, and none of this depends on what the burrow will be.
 */
export interface Spare {
  readonly paths: BurrowPaths
  readonly cgroup: BurrowCgroup
  readonly init: WaitingInit
  readonly restorer: StartedCriu | undefined
}

export interface SpareHost {
  readonly layout: Layout
  readonly hierarchies: Hierarchies
  readonly criu?: Criu | undefined
  /** Bounds all burrows together. */
  readonly parent?: ParentCgroup | undefined
}

export class SparePool implements AsyncDisposable {
  readonly #host: SpareHost
  readonly #ready: Spare[] = []
  readonly #making = new Set<Promise<void>>()
  /** Those who wait for one that is being made; undefined tells that it failed. */
  readonly #waiting: ((spare: Spare | undefined) => void)[] = []
  /** Those that nobody came for. What cannot be removed now is removed by the next server. */
  readonly #removing = new Set<Promise<void>>()
  /** How many somebody has said to take soon. */
  #expected = 0
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(host: SpareHost) {
    this.#host = host
  }

  /**
   * One that waits, or a new one. What is taken belongs to the caller, who removes it in case of failure. `keepsMark`: it stays marked
   * as a spare, because it is not somebody's yet.
   */
  async take({ keepsMark = false } = {}): Promise<Spare> {
    this.#expected = Math.max(0, this.#expected - 1)
    this.#fillSoon()
    for (;;) {
      const spare = this.#ready.shift() ?? (await this.#nextMade())
      if (spare === undefined) return makeSpare(this.#host, { isMarked: keepsMark })
      if (spare.init.isWaiting && spare.restorer?.isWaiting !== false) {
        if (!keepsMark) await rm(spare.paths.spareMark, { force: true })
        return spare
      }
      await discard(spare, this.#host)
    }
  }

  /** So many are about to be taken: they are made now. The answer takes back what was said, if it comes to nothing. */
  expect(count: number): () => void {
    this.#expected += count
    this.#fill()
    return () => {
      this.#expected = Math.max(0, this.#expected - count)
      this.#fillSoon()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await Promise.all([...this.#making, ...this.#removing])
    await Promise.all(this.#ready.splice(0).map((spare) => discard(spare, this.#host)))
  }

  #fillSoon(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#fill(), REFILL_DELAY_MS)
    // Spares are a convenience: they must not keep a process alive that has nothing else to do.
    this.#timer.unref()
  }

  #fill(): void {
    const wanted = Math.min(Math.max(SPARES, this.#expected), SPARES_MAX)
    while (!this.#isClosed && this.#making.size < MADE_AT_ONCE && this.#isShort(wanted)) {
      const making = this.#make().then((isMade) => {
        this.#making.delete(making)
        // Whoever needs a burrow next makes one itself, and reports why that fails.
        if (isMade) this.#fill()
      })
      this.#making.add(making)
    }
    for (const spare of this.#ready.splice(wanted)) this.#remove(spare)
  }

  #isShort(wanted: number): boolean {
    return this.#ready.length + this.#making.size - this.#waiting.length < wanted
  }

  async #make(): Promise<boolean> {
    const spare = await makeSpare(this.#host, { isMarked: true }).catch(() => undefined)
    const taker = this.#waiting.shift()
    if (taker !== undefined) taker(spare)
    else if (spare !== undefined) this.#ready.push(spare)
    return spare !== undefined
  }

  #remove(spare: Spare): void {
    const removing = discard(spare, this.#host)
      .catch(() => {})
      .then(() => {
        this.#removing.delete(removing)
      })
    this.#removing.add(removing)
  }

  /** undefined when none is being made, or all that are have a taker. */
  #nextMade(): Promise<Spare | undefined> | undefined {
    if (this.#making.size <= this.#waiting.length) return undefined
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}

async function makeSpare(host: SpareHost, { isMarked = false } = {}): Promise<Spare> {
  const { layout, hierarchies, criu, parent } = host
  const paths = layout.burrow(newBurrowId())
  try {
    if (isMarked) await writeFile(paths.spareMark, '')
    await makeDirectories(paths)
    await parent?.prepare()
    const cgroup = new BurrowCgroup(hierarchies, paths.cgroup)
    await cgroup.create(burrowLimitsSchema.parse({}))
    const cgroups = cgroup.directories
    const init = startInit({ cwd: paths.dir, cgroups })
    const restorer = criu && startCriu({ criu, as: 'burrow', cgroups, kdatDir: KDAT, action: RESTORE })
    return { paths, cgroup, init, restorer }
  } catch (error) {
    await removeBurrow(paths, hierarchies)
    throw error
  }
}

async function discard(spare: Spare, { hierarchies }: SpareHost): Promise<void> {
  spare.init.cancel()
  spare.restorer?.cancel()
  await removeBurrow(spare.paths, hierarchies)
}

async function makeDirectories(paths: BurrowPaths): Promise<void> {
  await mkdir(paths.dir, { recursive: true, mode: 0o700 })
  await mkdir(paths.run, { recursive: true, mode: 0o700 })
  for (const path of [paths.upper, paths.work]) {
    await mkdir(path, { mode: 0o755 })
    await chown(path, UID_BASE, UID_BASE)
  }
  await mkdir(paths.memory, { mode: 0o755 })
}
