import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import type { FailureLog } from '../host/failure-log.ts'
import { enableBelow } from './burrow-cgroup.ts'
import { readNumber, readText } from './controllers.ts'
import type { Hierarchies } from './find-hierarchies.ts'

/** What all sandboxes may use together. The rest is for the host, including the server. */
export interface SandboxShare {
  readonly memoryBytes: number
  readonly pids: number
}

export interface ParentCgroupOptions {
  readonly hierarchies: Hierarchies
  readonly name: string
  readonly share: SandboxShare
  readonly failures: FailureLog
}

const PAGE_BYTES = 4096
/** When CPU or disk is contended, the host's programs get twice as much: their weight is 1024 (v1) or 100 (v2). */
const CPU_SHARES_V1 = 512
const WEIGHT_V2 = 50
/** Process ids kept for the host: an eighth of what the kernel allows, but enough for a small host. */
const HOST_PIDS_SHARE = 1 / 8
const HOST_PIDS_MIN = 1_024

/** All memory but `hostMemoryBytes`, and all process ids but an eighth. */
export async function sandboxShare(hostMemoryBytes: number): Promise<SandboxShare> {
  const [pidMax, threadsMax] = await Promise.all(
    ['pid_max', 'threads-max'].map((name) => readNumber(join('/proc/sys/kernel', name))),
  )
  const pids = Math.min(pidMax || Number.MAX_SAFE_INTEGER, threadsMax || Number.MAX_SAFE_INTEGER)
  const hostPids = Math.max(HOST_PIDS_MIN, pids * HOST_PIDS_SHARE)
  const memoryBytes = Math.max(PAGE_BYTES, totalmem() - hostMemoryBytes)
  return {
    memoryBytes: Math.floor(memoryBytes / PAGE_BYTES) * PAGE_BYTES,
    pids: Math.max(1, Math.floor(pids - hostPids)),
  }
}

/**
 * The cgroup that contains the cgroups of all burrows of an engine, in every hierarchy. It limits what they use
 * together. The first burrow creates it; the engine removes it when it ends and no burrow is left.
 *
 * Weights are set one level higher, where it competes with the host's own groups. v1 has no weight for buffered writes,
 * which are nearly all writes, so no disk weight is set there.
 */
export class ParentCgroup {
  readonly #hierarchies: Hierarchies
  readonly #name: string
  readonly #share: SandboxShare
  readonly #failures: FailureLog
  #isPrepared = false

  constructor({ hierarchies, name, share, failures }: ParentCgroupOptions) {
    this.#hierarchies = hierarchies
    this.#name = name
    this.#share = share
    this.#failures = failures
  }

  /** Post: the cgroup exists with its limits. Calling it again is cheap. */
  async prepare(): Promise<void> {
    const { v1, v2 } = this.#hierarchies
    const mounts = new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])
    const made = await Promise.all(
      [...mounts].map((mount) => mkdir(join(mount, this.#name), { recursive: true })),
    )
    if (this.#isPrepared && made.every((path) => path === undefined)) return
    await this.#applyV1()
    if (v2 !== undefined) await this.#applyV2(v2.path)
    this.#isPrepared = true
  }

  /** Removes it unless it still contains burrows that keep running, or those of another engine. */
  async remove(): Promise<void> {
    const { v1, v2 } = this.#hierarchies
    for (const mount of new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])) {
      // The kernel refuses while a burrow is left in it, and it may be gone already.
      for (const directory of [join(mount, this.#name), join(mount, dirname(this.#name))])
        await rmdir(directory).catch(() => {})
    }
  }

  async #applyV1(): Promise<void> {
    const { v1 } = this.#hierarchies
    const at = (controller: 'memory' | 'cpu' | 'pids') => {
      const mount = v1.get(controller)
      return mount === undefined ? undefined : join(mount, this.#name)
    }
    const [memory, cpu, pids] = [at('memory'), at('cpu'), at('pids')]
    if (memory !== undefined) {
      // Kernels before 5.11 count sub-groups only if this is set before there are any.
      for (const level of [dirname(memory), memory]) await this.#setHierarchical(level)
      // If more is in use already, the kernel refuses, and the limit applies from the next start.
      await this.#set(join(memory, 'memory.limit_in_bytes'), this.#share.memoryBytes)
    }
    if (cpu !== undefined) await this.#set(join(dirname(cpu), 'cpu.shares'), CPU_SHARES_V1)
    if (pids !== undefined) await this.#set(join(pids, 'pids.max'), this.#share.pids)
  }

  async #applyV2(mount: string): Promise<void> {
    const directory = join(mount, this.#name)
    // Without this file there is no controller for disk access.
    const controllers = await readFile(join(mount, 'cgroup.controllers'), 'utf8').catch(() => '')
    if (controllers.split(/\s+/).includes('io'))
      // Weights for disk access are optional: if the kernel refuses, sandboxes compete on equal terms.
      await writeFile(join(mount, 'cgroup.subtree_control'), '+io').catch((error: unknown) =>
        this.#failures.report('limit', error, {}, 'sandboxes have no weight for disk access'),
      )
    await enableBelow(dirname(directory))
    await this.#set(join(dirname(directory), 'cpu.weight'), WEIGHT_V2)
    await this.#set(join(dirname(directory), 'io.weight'), `default ${WEIGHT_V2}`)
    await this.#set(join(directory, 'pids.max'), this.#share.pids)
    // The kernel would kill processes until the rest fits. Running sandboxes keep what they have.
    const used = await readNumber(join(directory, 'memory.current'))
    if (used < this.#share.memoryBytes)
      await this.#set(join(directory, 'memory.max'), this.#share.memoryBytes)
  }

  async #setHierarchical(directory: string): Promise<void> {
    // Newer kernels do not have this file and always count hierarchically.
    const file = join(directory, 'memory.use_hierarchy')
    if ((await readText(file).catch(() => '1')) === '0') await this.#set(file, 1)
  }

  /** If the kernel does not have this file or refuses the value, sandboxes run without this limit. */
  async #set(path: string, value: number | string): Promise<void> {
    await writeFile(path, String(value), { flag: 'r+' }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT')
        this.#failures.report('limit', error, { path }, 'the kernel refused a limit of all sandboxes')
    })
  }
}
