import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { type CriuCall, type CriuResult, type StartedCriu, startCriu } from '../criu/run-criu.ts'
import type { FailureLog } from '../host/failure-log.ts'
import { type FirstProcess, killFirstProcess } from '../process/first-process.ts'

/**
 * CRIU's own memory. The images it writes count too, while they are in the page cache: as much as the burrow may have.
 */
const OWN_MEMORY_BYTES = 512 * 1024 ** 2
/** CRIU, the process that waits for it, and a few short-lived ones. */
const PIDS_MAX = 16
/** A dump that takes longer hangs. Includes time for files that are open and deleted, whose size is not counted. */
const LEAST_DEADLINE_MS = 300_000
/** The slowest disk that is expected. */
const BYTES_PER_MS = 16 * 1024
const PREFIX = 'dumper-'

/** Where the cgroups of this engine are, and who hears of those that cannot be removed. */
export interface DumpHost {
  readonly hierarchies: Hierarchies
  readonly cgroupName: string
  readonly failures: FailureLog
  /** Names of cgroups that this engine made. One without members may be waiting for its CRIU. */
  readonly ownCgroups: Set<string>
}

export interface DumpTarget {
  readonly first: FirstProcess
  readonly imagesDir: string
  readonly freezerDir: string
  readonly deadlineMs: number
  readonly hasVolumes: boolean
}

/**
 * A CRIU that waits to dump a burrow. It has limits of its own, because processes of a sandbox made what it reads and
 * may try to make it grow.
 */
export class DumpProcess {
  /** Settles when nothing of it is left. The next engine removes what could not be removed. */
  readonly ended: Promise<void>
  readonly #criu: StartedCriu
  readonly #cgroup: BurrowCgroup

  private constructor(criu: StartedCriu, cgroup: BurrowCgroup, failures: FailureLog) {
    this.#criu = criu
    this.#cgroup = cgroup
    this.ended = criu.finished
      .then(() => cgroup.remove())
      .catch((error: unknown) =>
        failures.report('removal', error, {}, 'the cgroup of a dump was not removed'),
      )
  }

  static async start(host: DumpHost, call: Omit<CriuCall, 'as' | 'cgroups'>): Promise<DumpProcess> {
    const name = `${PREFIX}${randomUUID()}`
    host.ownCgroups.add(name)
    const cgroup = new BurrowCgroup(host.hierarchies, join(host.cgroupName, name))
    try {
      await cgroup.create(limitsFor(0))
      return new DumpProcess(
        startCriu({ ...call, as: 'host', cgroups: cgroup.directories }),
        cgroup,
        host.failures,
      )
    } catch (error) {
      // The caller gets the first error; the next engine removes the cgroup.
      await cgroup
        .remove()
        .catch((failure: unknown) =>
          host.failures.report('removal', failure, { cgroup: name }, 'the cgroup of a dump was not removed'),
        )
      throw error
    }
  }

  get isWaiting(): boolean {
    return this.#criu.isWaiting
  }

  /** Call before `run`, with the memory limit of the burrow. */
  async allowMemory(memoryBytes: number): Promise<void> {
    await this.#cgroup.apply(limitsFor(memoryBytes))
  }

  /** Pre: the burrow is frozen. Post: it is frozen, and its processes are stopped as well if the dump succeeded. */
  async run({ first, ...target }: DumpTarget): Promise<CriuResult> {
    const result = await this.#criu.enter({ firstPid: first.pid, ...target })
    // The process that kills the burrow at the deadline may have been killed itself.
    if (result.isCutOff) await killFirstProcess(first)
    return result
  }

  /** Ends CRIU before it has done anything. */
  cancel(): void {
    this.#criu.cancel()
  }
}

export function dumpDeadlineMs(usedBytes: number): number {
  return LEAST_DEADLINE_MS + Math.ceil(usedBytes / BYTES_PER_MS)
}

/** Removes the cgroups of dumps whose server has ended. A dump that still runs keeps its cgroup. */
export async function removeDumpCgroups(host: DumpHost): Promise<void> {
  const { hierarchies, cgroupName, failures, ownCgroups } = host
  const { v1, v2 } = hierarchies
  const mounts = new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])
  const names = new Set<string>()
  // A mount has no such directory until the first burrow is made.
  for (const mount of mounts)
    for (const name of await readdir(join(mount, cgroupName)).catch(() => []))
      if (name.startsWith(PREFIX) && !ownCgroups.has(name)) names.add(name)
  for (const name of names) {
    const cgroup = new BurrowCgroup(hierarchies, join(cgroupName, name))
    // A cgroup that cannot be read counts as one with members.
    const members = await cgroup.membersByDirectory().catch(() => [[0]])
    if (members.some(({ length }) => length > 0)) continue
    await cgroup
      .remove()
      .catch((error: unknown) =>
        failures.report('removal', error, { cgroup: name }, 'the cgroup of a dump was not removed'),
      )
  }
}

function limitsFor(memoryBytes: number) {
  return { memoryBytes: OWN_MEMORY_BYTES + memoryBytes, cpus: availableParallelism(), pids: PIDS_MAX }
}
