import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, utimes } from 'node:fs/promises'
import { basename } from 'node:path'
import { burrowLimitsSchema, DormouseError, newSandboxId, newSnapshotId } from '@dormouse/contracts'
import type { FileTree, Preparation } from '@dormouse/engine'
import type { Template } from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrow } from '../burrow/microvm-burrow.ts'
import { type SavedPaths, savedPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import type { Base, Machine } from '../storage/manifest.ts'
import { readManifest } from '../storage/manifest.ts'
import { buildRootDisk } from '../template/build-disks.ts'
import { makeBurrow } from './make-burrow.ts'
import { writeSnapshot } from './take-snapshot.ts'

const FORMAT = 'v4'
const KERNEL_STARTS_MAX = 8

export interface BootTemplate {
  readonly tree: FileTree
  readonly memoryBytes: number
  readonly cpus: number
  /** Modules that are imported before the snapshot is taken. */
  readonly preload: readonly string[]
  /** What else happens before it. */
  readonly preparation?: Preparation | undefined
  readonly signal?: AbortSignal | undefined
}

export interface BootedTemplate {
  readonly base: Base
  readonly paths: SavedPaths
}

/** Returns the snapshot of a booted template for a machine of this size. The first call boots it, in seconds. */
export class BootedTemplates {
  readonly #host: MicrovmHost
  readonly #booting = new Map<string, Promise<BootedTemplate>>()

  constructor(host: MicrovmHost) {
    this.#host = host
  }

  async get(boot: BootTemplate): Promise<BootedTemplate> {
    const name = await this.#name(boot)
    const found = await this.#find(name)
    if (found !== undefined) return found
    const booting = this.#booting.get(name) ?? this.#boot(name, boot)
    this.#booting.set(name, booting)
    return booting.finally(() => this.#booting.delete(name))
  }

  /** A base for a boot from files: the root disk of the template and nothing else. */
  async base({ tree, memoryBytes, cpus }: BootTemplate, build: string): Promise<Base> {
    const rootDisk = basename(await buildRootDisk(this.#host.layout.disksDir, tree))
    return {
      machine: { ...versionsOf(this.#host), memoryBytes, cpus },
      template: tree.template,
      templateHash: tree.key,
      ...(tree.isImage && { isImage: true }),
      ...(tree.image && { image: tree.image }),
      rootDisk,
      toolsDisk: basename(this.#host.toolsDisk),
      build,
      disks: [rootDisk],
      memory: [],
    }
  }

  /** Everything that its memory depends on is part of the name. */
  async #name({ tree, preload, preparation, memoryBytes, cpus }: BootTemplate): Promise<string> {
    const { toolsDisk, kernel, tscKhz } = this.#host
    const machine = { ...versionsOf(this.#host), memoryBytes, cpus }
    const parts = [
      FORMAT,
      tree.template,
      tree.key,
      tree.image,
      basename(toolsDisk),
      basename(kernel.initrd),
      preload.join(),
      preparation?.key,
    ]
    // Emulation counts time by the processor's counter, whose frequency the guest was told.
    const clock = machine.accelerator === 'tcg' ? Math.round(tscKhz / 1000) : 0
    const hash = createHash('sha256')
      .update(JSON.stringify([parts, machine, clock]))
      .digest('hex')
    return `${tree.template}-${hash.slice(0, 16)}`
  }

  async #find(name: string): Promise<BootedTemplate | undefined> {
    const paths = this.#host.layout.template(name)
    if (!existsSync(paths.manifest)) return undefined
    const { base } = await readManifest(paths.manifest, name)
    // The last use: `removeUnused` looks at it.
    const now = new Date()
    await utimes(paths.manifest, now, now)
    return { base: { ...base, build: name }, paths }
  }

  async #boot(name: string, boot: BootTemplate): Promise<BootedTemplate> {
    const host = this.#host
    const base = await this.base(boot, name)
    const limits = burrowLimitsSchema.parse({ memoryBytes: base.machine.memoryBytes, cpus: 8, pids: 4096 })
    const introduction = {
      ...{ sandboxId: newSandboxId(), reason: 'create' as const, reseed: true },
      image: base.image,
    }
    const burrow = await makeBurrow(host, {
      ...{ base, source: undefined, isBoot: true, limits, introduction },
      signal: boot.signal,
    })
    const id = newSnapshotId()
    const work = savedPaths(`${host.layout.template(name).dir}.${process.pid}`)
    try {
      await preload(burrow, boot.preload)
      await boot.preparation?.prepare(burrow.guest)
      await burrow.link.control('sync')
      await mkdir(host.layout.templatesDir, { recursive: true, mode: 0o711 })
      await rm(work.dir, { recursive: true, force: true })
      burrow.claimSaving()
      await burrow.stopForSaving()
      await writeSnapshot(burrow, { id, kind: 'full', target: work.dir, endsAfter: true })
      await burrow.endAfterSnapshot(id)
    } catch (error) {
      await burrow.resumeAfterFailedSave({ wasFrozen: true })
      await burrow.destroy().catch(() => {})
      throw error
    }
    // Another server may have booted the same template meanwhile: both are alike, and one is enough.
    await rename(work.dir, host.layout.template(name).dir).catch(() =>
      rm(work.dir, { recursive: true, force: true }),
    )
    const booted = await this.#find(name)
    if (booted === undefined) throw new Error(`the booted template ${name} is missing`)
    return booted
  }
}

/** The files of a template of the host. */
export function treeOf({ name, hash, rootfs, manifest }: Template): FileTree {
  const { uidBase, uidCount, description } = manifest
  return {
    ...{ key: hash, template: name, directories: [rootfs], uidBase, uidCount },
    ...{ preload: description.preload, isImage: false },
  }
}

/**
 * Post: the kernel of the default context has started. On a busy host without KVM it may need longer than the agent
 * waits; then the agent starts another one, whose files are in memory already.
 */
async function preload(burrow: MicrovmBurrow, modules: readonly string[]): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await burrow.guest.contexts.preload(modules.length > 0 ? modules : ['sys'])
      return
    } catch (error) {
      const hasKernelEnded = error instanceof DormouseError && error.code === 'conflict'
      if (!hasKernelEnded || attempt === KERNEL_STARTS_MAX) throw error
    }
  }
}

/** What the snapshots of this host run with. */
export function versionsOf({
  qemu,
  kernel,
}: Pick<MicrovmHost, 'qemu' | 'kernel'>): Omit<Machine, 'memoryBytes' | 'cpus'> {
  return { accelerator: qemu.accelerator, qemuVersion: qemu.version, kernel: kernel.release }
}
