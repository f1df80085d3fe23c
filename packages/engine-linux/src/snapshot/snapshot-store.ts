import { existsSync } from 'node:fs'
import { readdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  DormouseError,
  hasErrorCode,
  isBurrowId,
  isLayerId,
  isSnapshotId,
  type LayerId,
  type SnapshotId,
} from '@dormouse/contracts'
import { findRecord } from '../burrow/burrow-record.ts'
import type { Layout, SnapshotPaths } from '../burrow/layout.ts'
import { findTakenLayer } from '../burrow/taking.ts'
import { removeTree } from '../host/publish-directory.ts'
import { fulfilled, settleAll } from '../host/settle-all.ts'
import { generationPaths } from '../storage/generation.ts'
import { removeSums } from '../storage/layer-sums.ts'
import { findLayers, type Manifest, readManifest } from './manifest.ts'
import { UNFINISHED } from './take-snapshot.ts'
import { damaged, forgetVerified } from './verify-snapshot.ts'

const DELETED = '.deleted-'
/** More would only wait for each other, and there is a limit to open files. */
const READ_AT_ONCE = 8

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
        throw damaged(`its file layer ${layer} is missing`, cause)
      })
    }
  }

  /** Those that can be understood; one that is damaged, or of another format, must not be in the way of the others. */
  async list(): Promise<Manifest[]> {
    return (await this.#readAll()).flatMap(({ manifest }) => manifest ?? [])
  }

  async #readAll(): Promise<{ id: SnapshotId; manifest: Manifest | undefined }[]> {
    const ids = (await readdir(this.#layout.snapshotsDir)).filter(isSnapshotId)
    const read = (id: SnapshotId) => async () => {
      try {
        return [{ id, manifest: await readManifest(this.#layout.snapshot(id).manifest) }]
      } catch (error) {
        const isDeleted = hasErrorCode(error, 'not_found') && !existsSync(this.#layout.snapshot(id).dir)
        return isDeleted ? [] : [{ id, manifest: undefined }]
      }
    }
    return (await settleAll(ids.map(read), READ_AT_ONCE)).flatMap(fulfilled).flat()
  }

  /** Post: it cannot be restored any more, also if this is cut off; memory files go with their last link, layers with `collect`. */
  async delete(id: SnapshotId): Promise<void> {
    if (!isSnapshotId(id)) throw new DormouseError('invalid_argument', `"${id}" is not a snapshot id.`)
    const paths = this.#layout.snapshot(id)
    const doomed = join(this.#layout.snapshotsDir, `${DELETED}${id}`)
    await rename(paths.dir, doomed).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'ENOENT') throw cause
      throw new DormouseError('not_found', 'There is no such snapshot.', { cause })
    })
    forgetVerified(paths)
    await removeTree(doomed)
  }

  /** What snapshots that were cut off have left. Pre: none is being taken. */
  async removeUnfinished(): Promise<void> {
    for (const name of await readdir(this.#layout.snapshotsDir))
      if (name.startsWith(UNFINISHED)) await removeTree(join(this.#layout.snapshotsDir, name))
  }

  /**
   * Removes what interrupted deletions left, and layers that nothing refers to; false when it cannot be told which. Snapshots may be taken
   * meanwhile. Pre: when it begins, no snapshot is being taken or kept up.
   */
  async collect(): Promise<boolean> {
    // First: a layer that comes into being from here on has somebody who will refer to it.
    const layers = (await readdir(this.#layout.layersDir)).filter(isLayerId)
    for (const name of await readdir(this.#layout.snapshotsDir))
      if (name.startsWith(DELETED)) await removeTree(join(this.#layout.snapshotsDir, name))
    const used = await this.findUsedLayers()
    if (used === undefined) return false
    for (const name of layers) if (!used.has(name)) await removeTree(this.#layout.layer(name))
    await removeSums(this.#layout)
    return true
  }

  /**
   * The layers that burrows and snapshots stand on, of the latter without `except`. undefined when it cannot be told: there is a burrow
   * whose record cannot be read, because it is just being made, or a snapshot whose manifest is damaged. They may stand on any.
   */
  async findUsedLayers(except?: SnapshotId): Promise<Set<LayerId> | undefined> {
    const used = new Set<LayerId>()
    // Before and after the snapshots: a burrow becomes a snapshot, or comes from one that is deleted, while they are read.
    if (!(await this.#addLayersOfBurrows(used))) return undefined
    for (const { id, manifest } of await this.#readAll()) {
      if (id === except) continue
      const layers = manifest?.layers ?? (await findLayers(this.#layout.snapshot(id).manifest))
      if (layers === undefined && existsSync(this.#layout.snapshot(id).dir)) return undefined
      for (const layer of layers ?? []) used.add(layer)
    }
    return (await this.#addLayersOfBurrows(used)) ? used : undefined
  }

  async #addLayersOfBurrows(used: Set<LayerId>): Promise<boolean> {
    for (const name of (await readdir(this.#layout.burrowsDir)).filter(isBurrowId)) {
      const paths = this.#layout.burrow(name)
      const record = await findRecord(paths.record)
      const isUnknown = record === undefined && existsSync(paths.dir) && !existsSync(paths.spareMark)
      if (isUnknown) return false
      const own = await findTakenLayer(paths)
      for (const layer of [...(record?.layers ?? []), ...(own === undefined ? [] : [own])]) used.add(layer)
    }
    return true
  }
}
