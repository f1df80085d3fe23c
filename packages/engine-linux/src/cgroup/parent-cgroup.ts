import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { enableBelow } from './burrow-cgroup.ts'
import { readNumber, readText } from './controllers.ts'
import type { Hierarchies } from './find-hierarchies.ts'

/** What sandboxes may use together. The rest is the host's, which includes the server. */
export interface SandboxShare {
  readonly memoryBytes: number
  readonly pids: number
}

const PAGE_BYTES = 4096
/** Where both want a CPU or the disk, the host's programs get twice as much: theirs is 1024 (v1) or 100 (v2). */
const CPU_SHARES_V1 = 512
const WEIGHT_V2 = 50
/** Processes of the host: an eighth of all that the kernel can have, and enough for a small one. */
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
 * The cgroup that those of all burrows of an engine are in, in every hierarchy: what they use together is bounded,
 * whatever each of them may. It is made when the first burrow is, and goes with the engine when no burrow is left in
 * it.
 *
 * Weights are set one level higher, where it competes with the host's own groups. v1 knows no weight for what is
 * written behind a program's back, which is nearly everything, so there is none for io there.
 */
export class ParentCgroup {
  readonly #hierarchies: Hierarchies
  readonly #name: string
  readonly #share: SandboxShare
  #isPrepared = false

  constructor(hierarchies: Hierarchies, name: string, share: SandboxShare) {
    this.#hierarchies = hierarchies
    this.#name = name
    this.#share = share
  }

  /** Post: it is there with its limits. Again is fine, and costs little. */
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

  /** Removes it unless something is left in it: burrows that live on, or those of another engine beside it. */
  async remove(): Promise<void> {
    const { v1, v2 } = this.#hierarchies
    for (const mount of new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])) {
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
      // Kernels before 5.11 count what is below a group only when they are told to, before there is anything below.
      for (const level of [dirname(memory), memory]) await setHierarchical(level)
      // Too much is in use already: then the bound holds from the next start on.
      await set(join(memory, 'memory.limit_in_bytes'), this.#share.memoryBytes)
    }
    if (cpu !== undefined) await set(join(dirname(cpu), 'cpu.shares'), CPU_SHARES_V1)
    if (pids !== undefined) await set(join(pids, 'pids.max'), this.#share.pids)
  }

  async #applyV2(mount: string): Promise<void> {
    const directory = join(mount, this.#name)
    const controllers = await readFile(join(mount, 'cgroup.controllers'), 'utf8').catch(() => '')
    if (controllers.split(/\s+/).includes('io'))
      await writeFile(join(mount, 'cgroup.subtree_control'), '+io').catch(() => {})
    await enableBelow(dirname(directory))
    await set(join(dirname(directory), 'cpu.weight'), WEIGHT_V2)
    await set(join(dirname(directory), 'io.weight'), `default ${WEIGHT_V2}`)
    await set(join(directory, 'pids.max'), this.#share.pids)
    // The kernel would end processes until the rest fits: what runs keeps what it has.
    const used = await readNumber(join(directory, 'memory.current'))
    if (used < this.#share.memoryBytes) await set(join(directory, 'memory.max'), this.#share.memoryBytes)
  }
}

async function setHierarchical(directory: string): Promise<void> {
  const file = join(directory, 'memory.use_hierarchy')
  if ((await readText(file).catch(() => '1')) === '0') await set(file, 1)
}

/** Where the kernel has no such file, or refuses the value, sandboxes run without this bound. */
async function set(path: string, value: number | string): Promise<void> {
  await writeFile(path, String(value), { flag: 'r+' }).catch(() => {})
}
