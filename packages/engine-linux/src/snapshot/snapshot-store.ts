import { existsSync } from 'node:fs'
import { readdir, rename } from 'node:fs/promises'
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
import { type Manifest, readManifest } from './manifest.ts'
import { UNFINISHED } from './take-snapshot.ts'

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
    return { paths, manifest: await readManifest(paths.manifest) }
  }

  async list(): Promise<Manifest[]> {
    const names = await readdir(this.#layout.snapshotsDir)
    const manifests = names.filter(isSnapshotId).map((id) => readManifest(this.#layout.snapshot(id).manifest))
    return Promise.all(manifests)
  }

  /** Post: it cannot be restored any more, also if this is cut off; memory files go with their last link, layers with `collect`. */
  async delete(id: SnapshotId): Promise<void> {
    const { paths } = await this.get(id)
    const doomed = join(this.#layout.snapshotsDir, `${DELETED}${id}`)
    await rename(paths.dir, doomed)
    await removeTree(doomed)
  }

  /** Removes what interrupted snapshots and deletions left, and layers that nothing refers to. Pre: no snapshot is being taken. */
  async collect(): Promise<void> {
    for (const name of await readdir(this.#layout.snapshotsDir)) {
      if (name.startsWith(UNFINISHED) || name.startsWith(DELETED))
        await removeTree(join(this.#layout.snapshotsDir, name))
    }
    const used = await this.#usedLayers()
    for (const name of await readdir(this.#layout.layersDir)) {
      if (isLayerId(name) && !used.has(name)) await removeTree(this.#layout.layer(name))
    }
  }

  async #usedLayers(): Promise<Set<LayerId>> {
    const used = new Set<LayerId>()
    for (const { layers } of await this.list()) for (const layer of layers) used.add(layer)
    for (const name of (await readdir(this.#layout.burrowsDir)).filter(isBurrowId)) {
      const paths = this.#layout.burrow(name)
      const record = await findRecord(paths.record)
      const isUnknown = record === undefined && existsSync(paths.dir) && !existsSync(paths.spareMark)
      // A burrow whose record cannot be read may stand on any layer.
      if (isUnknown) return new Set((await readdir(this.#layout.layersDir)).filter(isLayerId))
      for (const layer of record?.layers ?? []) used.add(layer)
    }
    return used
  }
}
