import { existsSync } from 'node:fs'
import { readdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  DormouseError,
  isBurrowId,
  isLayerId,
  isSnapshotId,
  type LayerId,
  type SnapshotId,
} from '@dormouse/contracts'
import { findRecord } from '../burrow/burrow-record.ts'
import type { Layout, SnapshotPaths } from '../burrow/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { generationPaths } from '../storage/generation.ts'
import { type Manifest, readManifest } from './manifest.ts'
import { UNFINISHED } from './take-snapshot.ts'
import { forgetVerified, unusable } from './verify-snapshot.ts'

const DELETED = '.deleted-'

/** The finished snapshots of an engine, on disk. */
export class SnapshotStore {
  readonly #layout: Layout

  constructor(layout: Layout) {
    this.#layout = layout
  }

  async get(id: SnapshotId): Promise<{ paths: SnapshotPaths; manifest: Manifest }> {
    if (!isSnapshotId(id)) throw new DormouseError('invalid_argument', `"${id}" is not a snapshot id.`)
    const paths = this.#layout.snapshot(id)
    const manifest = await readManifest(paths.manifest)
    return { paths: generationPaths(paths.dir, manifest.generation), manifest }
  }

  /** Refuses one whose files are not there. */
  async checkLayers({ layers }: Manifest): Promise<void> {
    for (const layer of layers) {
      await stat(this.#layout.layer(layer)).catch((cause) => {
        throw unusable(`its file layer ${layer} is missing`, cause)
      })
    }
  }

  async list(): Promise<Manifest[]> {
    const names = await readdir(this.#layout.snapshotsDir)
    const manifests = names.filter(isSnapshotId).map((id) =>
      readManifest(this.#layout.snapshot(id).manifest).catch((error: unknown) => {
        // Deleted since the directory was read.
        if (error instanceof DormouseError && error.code === 'not_found') return undefined
        throw error
      }),
    )
    return (await Promise.all(manifests)).filter((manifest) => manifest !== undefined)
  }

  /** Post: it cannot be restored any more, also if this is cut off; memory files go with their last link, layers with `collect`. */
  async delete(id: SnapshotId): Promise<void> {
    const { paths } = await this.get(id)
    const doomed = join(this.#layout.snapshotsDir, `${DELETED}${id}`)
    await rename(paths.dir, doomed)
    forgetVerified(paths)
    await removeTree(doomed)
  }

  /** Removes what interrupted snapshots and deletions left, and layers that nothing refers to. Pre: no snapshot is being taken or kept up. */
  async collect(): Promise<boolean> {
    // First: a layer that comes into being from here on has somebody who will refer to it.
    const layers = (await readdir(this.#layout.layersDir)).filter(isLayerId)
    for (const name of await readdir(this.#layout.snapshotsDir)) {
      if (name.startsWith(UNFINISHED) || name.startsWith(DELETED))
        await removeTree(join(this.#layout.snapshotsDir, name))
    }
    const used = await this.findUsedLayers()
    if (used === undefined) return false
    for (const name of layers) if (!used.has(name)) await removeTree(this.#layout.layer(name))
    return true
  }

  /**
   * The layers that burrows and snapshots stand on, of the latter without `except`. undefined while there is a burrow whose
   * record cannot be read, because it is just being made: it may stand on any.
   */
  async findUsedLayers(except?: SnapshotId): Promise<Set<LayerId> | undefined> {
    const used = new Set<LayerId>()
    for (const { id, layers } of await this.list())
      for (const layer of id === except ? [] : layers) used.add(layer)
    for (const name of (await readdir(this.#layout.burrowsDir)).filter(isBurrowId)) {
      const paths = this.#layout.burrow(name)
      const record = await findRecord(paths.record)
      const isUnknown = record === undefined && existsSync(paths.dir) && !existsSync(paths.spareMark)
      if (isUnknown) return undefined
      for (const layer of record?.layers ?? []) used.add(layer)
    }
    return used
  }
}
