import { chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { burrowLimitsSchema, newBurrowId } from '@dormouse/contracts'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import type { Criu } from '../criu/find-criu.ts'
import { type StartedCriu, startCriu } from '../criu/run-criu.ts'
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
]
/** Two wakes in a row do not wait; each spare takes a few megabytes. */
const SPARES = 2
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
}

export class SparePool implements AsyncDisposable {
  readonly #host: SpareHost
  readonly #ready: Spare[] = []
  #making: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(host: SpareHost) {
    this.#host = host
  }

  /** One that waits, or a new one. What is taken belongs to the caller, who removes it in case of failure. */
  async take(): Promise<Spare> {
    this.#refillSoon()
    for (let spare = this.#ready.shift(); spare !== undefined; spare = this.#ready.shift()) {
      if (spare.init.isWaiting && spare.restorer?.isWaiting !== false) {
        await rm(spare.paths.spareMark, { force: true })
        return spare
      }
      await discard(spare, this.#host)
    }
    return makeSpare(this.#host)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#making
    await Promise.all(this.#ready.splice(0).map((spare) => discard(spare, this.#host)))
  }

  #refillSoon(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#making ??= this.#refill().finally(() => {
        this.#making = undefined
      })
    }, REFILL_DELAY_MS)
    // Spares are a convenience: they must not keep a process alive that has nothing else to do.
    this.#timer.unref()
  }

  async #refill(): Promise<void> {
    while (this.#ready.length < SPARES && !this.#isClosed) {
      const spare = await makeSpare(this.#host, { isMarked: true }).catch(() => undefined)
      // Whoever needs a burrow next makes one itself, and reports why that fails.
      if (spare === undefined) return
      this.#ready.push(spare)
    }
  }
}

async function makeSpare(host: SpareHost, { isMarked = false } = {}): Promise<Spare> {
  const { layout, hierarchies, criu } = host
  const paths = layout.burrow(newBurrowId())
  try {
    if (isMarked) await writeFile(paths.spareMark, '')
    await makeDirectories(paths)
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
  for (const path of [paths.upper, paths.work, paths.link]) {
    await mkdir(path, { mode: 0o755 })
    await chown(path, UID_BASE, UID_BASE)
  }
  await mkdir(paths.memory, { mode: 0o755 })
}
