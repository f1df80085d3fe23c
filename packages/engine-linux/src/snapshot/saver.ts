import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { type FirstProcess, killFirstProcess } from '../burrow/first-process.ts'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { type CriuCall, type CriuResult, type StartedCriu, startCriu } from '../criu/run-criu.ts'

/** CRIU's own memory. Beyond it, what it writes stays in the page cache and counts too: as much as the burrow may have. */
const OWN_MEMORY_BYTES = 512 * 1024 ** 2
/** CRIU, the process that waits for it, and few that it starts for a moment. */
const PIDS_MAX = 16
/** A dump that takes longer hangs. A slow disk has time for files that are open and deleted, which nothing counts. */
const LEAST_DEADLINE_MS = 300_000
/** As slow as a disk may be. */
const BYTES_PER_MS = 16 * 1024
const PREFIX = 'dumper-'
/** Names of this process's own. A cgroup without members may be waiting for its CRIU. */
const own = new Set<string>()

/** Where the cgroups of this engine are. */
export interface SaverHost {
  readonly hierarchies: Hierarchies
  readonly cgroupName: string
}

export interface SaveBurrow {
  readonly first: FirstProcess
  readonly imagesDir: string
  readonly freezerDir: string
  readonly deadlineMs: number
  readonly hasVolumes: boolean
}

/** A CRIU that waits to save a burrow, with limits of its own: what it reads was made by processes that may want it to grow. */
export class Saver {
  /** Settles when nothing of it is left. What could not be removed is removed by the next engine. */
  readonly ended: Promise<void>
  readonly #criu: StartedCriu
  readonly #cgroup: BurrowCgroup

  private constructor(criu: StartedCriu, cgroup: BurrowCgroup) {
    this.#criu = criu
    this.#cgroup = cgroup
    this.ended = criu.finished.then(() => cgroup.remove()).catch(() => {})
  }

  static async start(host: SaverHost, call: Omit<CriuCall, 'as' | 'cgroups'>): Promise<Saver> {
    const name = `${PREFIX}${randomUUID()}`
    own.add(name)
    const cgroup = new BurrowCgroup(host.hierarchies, join(host.cgroupName, name))
    try {
      await cgroup.create(limitsFor(0))
      return new Saver(startCriu({ ...call, as: 'host', cgroups: cgroup.directories }), cgroup)
    } catch (error) {
      await cgroup.remove().catch(() => {})
      throw error
    }
  }

  get isWaiting(): boolean {
    return this.#criu.isWaiting
  }

  /** Before `save`: the limit of the burrow. */
  async allowMemory(memoryBytes: number): Promise<void> {
    await this.#cgroup.apply(limitsFor(memoryBytes))
  }

  /** Pre: the burrow is frozen. Post: it is frozen, and its processes are stopped as well if the dump succeeded. */
  async save({ first, ...target }: SaveBurrow): Promise<CriuResult> {
    const result = await this.#criu.enter({ firstPid: first.pid, ...target })
    // Also where the process that sees to it was killed itself.
    if (result.isCutOff) await killFirstProcess(first)
    return result
  }

  /** It ends without having done anything. */
  cancel(): void {
    this.#criu.cancel()
  }
}

export function dumpDeadlineMs(usedBytes: number): number {
  return LEAST_DEADLINE_MS + Math.ceil(usedBytes / BYTES_PER_MS)
}

/** Removes cgroups of savers whose server is gone. One that still works keeps its own. */
export async function removeSaverCgroups({ hierarchies, cgroupName }: SaverHost): Promise<void> {
  const { v1, v2 } = hierarchies
  const mounts = new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])
  const names = new Set<string>()
  for (const mount of mounts)
    for (const name of await readdir(join(mount, cgroupName)).catch(() => []))
      if (name.startsWith(PREFIX) && !own.has(name)) names.add(name)
  for (const name of names) {
    const cgroup = new BurrowCgroup(hierarchies, join(cgroupName, name))
    const members = await cgroup.membersByDirectory().catch(() => [[0]])
    if (members.every(({ length }) => length === 0)) await cgroup.remove().catch(() => {})
  }
}

function limitsFor(memoryBytes: number) {
  return { memoryBytes: OWN_MEMORY_BYTES + memoryBytes, cpus: availableParallelism(), pids: PIDS_MAX }
}
