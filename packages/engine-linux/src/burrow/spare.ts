import { rmSync } from 'node:fs'
import { chown, mkdir, writeFile } from 'node:fs/promises'
import { burrowLimitsSchema, newBurrowId } from '@dormouse/contracts'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import type { ParentCgroup } from '../cgroup/parent-cgroup.ts'
import type { Criu } from '../criu/find-criu.ts'
import { KDAT_BURROW } from '../criu/kdat.ts'
import { FILE_VALIDATION, type StartedCriu, startCriu } from '../criu/run-criu.ts'
import type { FailureLog } from '../host/failure-log.ts'
import type { BurrowPaths, Layout } from '../host/layout.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { startInit, type WaitingInit } from './launch-init.ts'
import { removeBurrow } from './remove-burrow.ts'
import { ShownLimits } from './shown-limits.ts'

const RESTORE: readonly [string, ...string[]] = [
  'restore',
  '--restore-detached',
  '--tcp-established',
  '--manage-cgroups=ignore',
  '--file-locks',
  '--link-remap',
  ...FILE_VALIDATION,
]
/** The limits of every burrow until it is launched. */
export const SPARE_LIMITS = burrowLimitsSchema.parse({})
/** Two wakes in a row do not wait; each spare takes a few megabytes. */
const SPARES = 2
/** A fork into more sandboxes than this makes the rest of its burrows as it needs them. */
const SPARES_MAX = 16
/** Making a spare is half work and half waiting. */
const MADE_AT_ONCE = 3
/** New spares are made when the host has nothing more urgent to do. */
const REFILL_DELAY_MS = 150

/**
 * An empty burrow made ahead of need: it has directories and cgroups, and a dormouse-init and a CRIU that have joined
 * the cgroups and wait. Joining cgroups alone takes the kernel tens of milliseconds.
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
  readonly failures: FailureLog
  readonly criu?: Criu | undefined
  /** Bounds all burrows together. */
  readonly parent?: ParentCgroup | undefined
}

export class SparePool implements AsyncDisposable {
  readonly #host: SpareHost
  readonly #ready: Spare[] = []
  readonly #making = new Set<Promise<void>>()
  /** Callers of `take` that wait for a spare being made; they get undefined when it could not be made. */
  readonly #takers: ((spare: Spare | undefined) => void)[] = []
  /** Spares being removed because too many are ready. */
  readonly #removing = new Set<Promise<void>>()
  /** How many spares callers of `expect` are about to take. */
  #expected = 0
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(host: SpareHost) {
    this.#host = host
  }

  /**
   * Returns a spare that is ready, or a new one. The caller owns it and discards it on failure. With `keepsMark` it
   * stays marked as a spare on disk, because no sandbox has it yet.
   */
  async take({ keepsMark = false } = {}): Promise<Spare> {
    this.#expected = Math.max(0, this.#expected - 1)
    this.#fillSoon()
    for (;;) {
      const spare = this.#ready.shift() ?? (await this.#nextMade())
      if (spare === undefined) return makeSpare(this.#host, { isMarked: keepsMark })
      if (spare.init.isWaiting && spare.restorer?.isWaiting !== false) {
        // Synchronous: a wake waits for it, and the threads of the pool may be busy with a disk.
        if (!keepsMark) rmSync(spare.paths.spareMark, { force: true })
        return spare
      }
      await discardSpare(spare, this.#host.hierarchies)
    }
  }

  /** Makes `count` spares now, because the caller is about to take them. The returned function cancels that. */
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
    await Promise.all(this.#ready.splice(0).map((spare) => discardSpare(spare, this.#host.hierarchies)))
  }

  #fillSoon(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#fill(), REFILL_DELAY_MS)
    // Spares must not keep a process alive that has nothing else to do.
    this.#timer.unref()
  }

  #fill(): void {
    const wanted = Math.min(Math.max(SPARES, this.#expected), SPARES_MAX)
    while (!this.#isClosed && this.#making.size < MADE_AT_ONCE && this.#isShort(wanted)) {
      const making = this.#make().then((isMade) => {
        this.#making.delete(making)
        // After a failure the next caller of `take` makes its own, and gets the error.
        if (isMade) this.#fill()
      })
      this.#making.add(making)
    }
    for (const spare of this.#ready.splice(wanted)) this.#remove(spare)
  }

  #isShort(wanted: number): boolean {
    return this.#ready.length + this.#making.size - this.#takers.length < wanted
  }

  async #make(): Promise<boolean> {
    const spare = await makeSpare(this.#host, { isMarked: true }).catch((error: unknown) => {
      this.#host.failures.report('spare', error, {}, 'a spare burrow was not made')
    })
    const taker = this.#takers.shift()
    if (taker !== undefined) taker(spare ?? undefined)
    else if (spare !== undefined) this.#ready.push(spare)
    return spare !== undefined
  }

  #remove(spare: Spare): void {
    const { hierarchies, failures } = this.#host
    const removing = discardSpare(spare, hierarchies)
      .catch((error: unknown) =>
        failures.report('removal', error, { burrowId: spare.paths.id }, 'a spare burrow was not removed'),
      )
      .then(() => {
        this.#removing.delete(removing)
      })
    this.#removing.add(removing)
  }

  /** Undefined when no spare is being made, or every one that is has a taker. */
  #nextMade(): Promise<Spare | undefined> | undefined {
    if (this.#making.size <= this.#takers.length) return undefined
    return new Promise((resolve) => this.#takers.push(resolve))
  }
}

/** Removes a spare, and the burrow that was launched in it, if any. */
export async function discardSpare(spare: Spare, hierarchies: Hierarchies): Promise<void> {
  spare.init.cancel()
  spare.restorer?.cancel()
  await removeBurrow(spare.paths, hierarchies)
}

async function makeSpare(host: SpareHost, { isMarked = false } = {}): Promise<Spare> {
  const { layout, hierarchies, criu, parent } = host
  const paths = layout.burrow(newBurrowId())
  try {
    if (isMarked) await writeFile(paths.spareMark, '')
    await makeDirectories(paths)
    await parent?.prepare()
    const cgroup = new BurrowCgroup(hierarchies, paths.cgroup)
    await cgroup.create(SPARE_LIMITS)
    ShownLimits.make(paths.limits, SPARE_LIMITS)
    const cgroups = cgroup.directories
    const init = startInit({ cwd: paths.dir, cgroups })
    const restorer = criu && startCriu({ criu, as: 'burrow', cgroups, kdatDir: KDAT_BURROW, action: RESTORE })
    return { paths, cgroup, init, restorer }
  } catch (error) {
    await removeBurrow(paths, hierarchies)
    throw error
  }
}

async function makeDirectories(paths: BurrowPaths): Promise<void> {
  await mkdir(paths.dir, { recursive: true, mode: 0o700 })
  await mkdir(paths.run, { recursive: true, mode: 0o700 })
  for (const path of [paths.upper, paths.work]) {
    await mkdir(path, { mode: 0o755 })
    await chown(path, UID_BASE, UID_BASE)
  }
  for (const path of [paths.memory, paths.unfolded]) await mkdir(path, { mode: 0o755 })
}
