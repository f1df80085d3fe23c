import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, isSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { Snapshot, StorageReport } from '@dormouse/engine'
import { hashFile, isArriving, runCommand } from '@dormouse/engine-linux/for-engines'
import { savedPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { pagesProgram } from '../native-programs.ts'
import { memoryInJail } from '../qemu/qemu-arguments.ts'
import { type Manifest, readManifest } from '../storage/manifest.ts'
import { DiskSums } from './disk-sums.ts'
import { problemHere } from './machine-needs.ts'

/** Snapshots on disk. Hard links share disks and memory files, so the file system counts references. */
export class MicrovmSnapshotStore {
  readonly sums: DiskSums
  readonly #host: MicrovmHost

  constructor(host: MicrovmHost) {
    this.#host = host
    this.sums = new DiskSums(host)
  }

  has(id: SnapshotId): boolean {
    return isSnapshotId(id) && existsSync(this.#host.layout.snapshot(id).manifest)
  }

  async get(id: SnapshotId): Promise<Manifest> {
    if (!isSnapshotId(id))
      throw new DormouseError('invalid_argument', 'snapshotId: is not a snapshot id', {
        details: { field: 'snapshotId' },
      })
    return readManifest(this.#host.layout.snapshot(id).manifest, id)
  }

  /** Throws `snapshot_unusable` when it cannot run here. */
  async getUsable(id: SnapshotId, of?: string): Promise<Manifest> {
    const manifest = await this.get(id)
    const problem =
      of !== undefined && manifest.sandboxId !== of
        ? 'it was taken of another sandbox'
        : problemHere(this.#host, manifest.base)
    if (problem !== undefined)
      throw new DormouseError('snapshot_unusable', `The snapshot cannot be restored: ${problem}.`)
    return manifest
  }

  async list(except: ReadonlySet<SnapshotId> = new Set()): Promise<readonly Snapshot[]> {
    const names = (await readdir(this.#host.layout.snapshotsDir)).filter(isSnapshotId)
    const found = await Promise.all(
      names.filter((id) => !except.has(id)).map((id) => this.get(id).catch(() => undefined)),
    )
    return found.filter((manifest) => manifest !== undefined).map(describeSnapshot)
  }

  /** The name goes first: a snapshot without its manifest does not exist. */
  async delete(id: SnapshotId): Promise<void> {
    if (!isSnapshotId(id)) throw new DormouseError('invalid_argument', 'snapshotId: is not a snapshot id')
    const { dir } = this.#host.layout.snapshot(id)
    const doomed = join(this.#host.layout.snapshotsDir, `.deleting-${id}`)
    await rename(dir, doomed).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') throw new DormouseError('not_found', `There is no snapshot ${id}.`)
      throw error
    })
    await rm(doomed, { recursive: true, force: true })
  }

  /** After a start: finishes what the last server has not, and says which snapshots cannot run here any more. */
  async takeOver(): Promise<void> {
    await this.#removeLeftovers()
    await this.sums.addMissing()
    const problems = new Map<string, number>()
    for (const id of (await readdir(this.#host.layout.snapshotsDir)).filter(isSnapshotId)) {
      const manifest = await this.get(id).catch(() => undefined)
      const problem = manifest && problemHere(this.#host, manifest.base)
      if (problem !== undefined) problems.set(problem, (problems.get(problem) ?? 0) + 1)
    }
    for (const [problem, snapshots] of problems)
      this.#host.failures.report(
        'adoption',
        new DormouseError('snapshot_unusable', problem),
        { snapshots },
        'virtual machines that sleep cannot wake here: see "Updates" in docs/isolation.md',
      )
  }

  /** What snapshots and deletions that did not finish left behind. */
  async #removeLeftovers(): Promise<void> {
    for (const name of await readdir(this.#host.layout.snapshotsDir)) {
      if (/^\.(taking|deleting|sending)-/.test(name))
        await rm(join(this.#host.layout.snapshotsDir, name), { recursive: true, force: true })
    }
  }

  /** Reads everything that the snapshot added, and compares it with its checksums. */
  async verify(id: SnapshotId): Promise<number> {
    await this.sums.settled(id)
    const manifest = await this.getUsable(id)
    const { dir, map } = this.#host.layout.snapshot(id)
    let readBytes = 0
    // Memory that is still on its way is verified when it is here.
    const sums = Object.entries(manifest.sums).filter(([name]) => !isArriving(dir, name))
    for (const [name, sum] of sums) {
      const path = join(dir, name)
      const actual = await (name.startsWith('memory/') ? sumPages(path, map) : hashFile(path)).catch(() => '')
      if (actual !== sum)
        throw new DormouseError(
          'snapshot_unusable',
          `The snapshot is damaged: ${name} has changed or is missing.`,
        )
      readBytes += (await stat(path)).size
    }
    for (const name of [...manifest.base.disks, ...manifest.base.memory]) {
      const paths = savedPaths(dir)
      const isDisk = manifest.base.disks.includes(name)
      const path = isDisk
        ? this.#host.diskFile(paths.disks, manifest.base, name)
        : this.#host.memoryFile(paths.memory, manifest.base, name)
      if (!existsSync(path))
        throw new DormouseError('snapshot_unusable', `The snapshot is damaged: ${name} is missing.`)
    }
    return readBytes
  }

  /** Shared files are counted once, and divided among the snapshots that link to them. */
  async storage(): Promise<StorageReport> {
    const snapshots = new Map<SnapshotId, number>()
    let totalBytes = 0
    for (const id of (await readdir(this.#host.layout.snapshotsDir)).filter(isSnapshotId)) {
      const bytes = await this.#share(id)
      snapshots.set(id, bytes)
      totalBytes += bytes
    }
    return { totalBytes, snapshots }
  }

  async #share(id: SnapshotId): Promise<number> {
    const { dir } = this.#host.layout.snapshot(id)
    const entries = await readdir(dir, { recursive: true, withFileTypes: true }).catch(() => [])
    let bytes = 0
    for (const entry of entries.filter((one) => one.isFile())) {
      const found = await stat(join(entry.parentPath, entry.name)).catch(() => undefined)
      if (found !== undefined) bytes += Math.round((found.blocks * 512) / found.nlink)
    }
    return bytes
  }
}

export function describeSnapshot(manifest: Manifest): Snapshot {
  const { id, sandboxId, kind, parent, base, createdAt, limits, bytes } = manifest
  const volumes = manifest.volumes.map(({ volumeId, path, readOnly }) => ({ volumeId, path, readOnly }))
  return {
    ...{ id, sandboxId, kind, limits, bytes, volumes },
    ...(parent && { parent }),
    template: base.template,
    createdAt: new Date(createdAt),
  }
}

/** The checksum of the pages that a memory file has, with their number. */
export async function sumPages(path: string, map: string): Promise<string> {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const { exitCode, stdout } = await runCommand({
    argv: [pagesProgram, 'check', path, map, memoryInJail(name)],
  })
  return exitCode === 0 ? stdout.trim() : `unreadable ${createHash('sha256').update(path).digest('hex')}`
}
