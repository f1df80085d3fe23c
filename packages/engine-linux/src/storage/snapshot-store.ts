import { readdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fulfilled, settleAll } from '@dormouse/async'
import { DormouseError, isLayerId, isSnapshotId, type LayerId, type SnapshotId } from '@dormouse/contracts'
import type { Layout, SnapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { generationPaths } from './generation.ts'
import { LayerLists } from './layer-lists.ts'
import { removeSums } from './layer-sums.ts'
import { type Manifest, readManifest } from './manifest.ts'
import { UNFINISHED } from './publish-snapshot.ts'
import { damaged, type VerifiedSnapshots } from './verify-snapshot.ts'

const DELETED = '.deleted-'
/** More would only wait for each other, and there is a limit to open files. */
const READ_AT_ONCE = 8

/** Layers that something other than a snapshot uses. Undefined when that is not known: every layer may be in use. */
export type FindOtherUsedLayers = () => Promise<ReadonlySet<LayerId> | undefined>

/** The finished snapshots of an engine, on disk. */
export class SnapshotStore {
  readonly #layout: Layout
  readonly #verified: VerifiedSnapshots
  readonly #findOtherUsedLayers: FindOtherUsedLayers
  readonly #layerLists: LayerLists

  /** `findOtherUsedLayers`: the layers that live burrows use. */
  constructor(layout: Layout, verified: VerifiedSnapshots, findOtherUsedLayers: FindOtherUsedLayers) {
    this.#layout = layout
    this.#verified = verified
    this.#findOtherUsedLayers = findOtherUsedLayers
    this.#layerLists = new LayerLists(layout)
  }

  async get(id: SnapshotId): Promise<{ paths: SnapshotPaths; manifest: Manifest }> {
    if (!isSnapshotId(id)) throw new DormouseError('invalid_argument', `"${id}" is not a snapshot id.`)
    const paths = this.#layout.snapshot(id)
    const manifest = await readManifest(paths.manifest)
    return { paths: generationPaths(paths.dir, manifest.generation), manifest }
  }

  /** Throws `snapshot_unusable` when a layer is missing. */
  async checkLayers({ layers }: Manifest): Promise<void> {
    for (const layer of layers) {
      await stat(this.#layout.layer(layer)).catch((cause) => {
        throw damaged(`its file layer ${layer} is missing`, cause)
      })
    }
  }

  /** Manifests of all snapshots besides `except`, without those that are damaged or have another format. */
  async list(except: ReadonlySet<SnapshotId> = new Set()): Promise<Manifest[]> {
    const ids = (await this.ids()).filter((id) => !except.has(id))
    const read = (id: SnapshotId) => () =>
      readManifest(this.#layout.snapshot(id).manifest).catch(() => undefined)
    return (await settleAll(ids.map(read), READ_AT_ONCE)).flatMap(fulfilled).flatMap((found) => found ?? [])
  }

  /** Of all snapshots, also of those that cannot be read. */
  async ids(): Promise<SnapshotId[]> {
    return (await readdir(this.#layout.snapshotsDir)).filter(isSnapshotId)
  }

  /**
   * Post: the snapshot cannot be restored any more, even if this is cut off. Memory files go with their last link,
   * layers with `collect`.
   */
  async delete(id: SnapshotId): Promise<void> {
    if (!isSnapshotId(id)) throw new DormouseError('invalid_argument', `"${id}" is not a snapshot id.`)
    const paths = this.#layout.snapshot(id)
    const doomed = join(this.#layout.snapshotsDir, `${DELETED}${id}`)
    await rename(paths.dir, doomed).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'ENOENT') throw cause
      throw new DormouseError('not_found', 'There is no such snapshot.', { cause })
    })
    this.#verified.forget(paths)
    await removeTree(doomed)
  }

  /** Removes what interrupted snapshots left. Pre: no snapshot is being taken. */
  async removeUnfinished(): Promise<void> {
    for (const name of await readdir(this.#layout.snapshotsDir))
      if (name.startsWith(UNFINISHED)) await removeTree(join(this.#layout.snapshotsDir, name))
  }

  /**
   * Removes what interrupted deletions left, and layers that nothing refers to. Returns false when it is not known
   * which layers are in use. Snapshots may be taken meanwhile. Pre: when this begins, no snapshot is being taken or
   * improved.
   */
  async collect(): Promise<boolean> {
    // Listed first: the snapshot or burrow that a later layer is made for will refer to it.
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
   * The layers that burrows and snapshots use, snapshot `except` left out. Undefined when that is not known: a burrow
   * is being made and has no record yet, or a manifest is damaged. They may use any layer.
   */
  async findUsedLayers(except?: SnapshotId): Promise<Set<LayerId> | undefined> {
    // Before and after the snapshots are read: meanwhile a burrow may become a snapshot, or its snapshot may be
    // deleted.
    const before = await this.#findOtherUsedLayers()
    if (before === undefined) return undefined
    const used = new Set(before)
    const ofSnapshots = await this.#layerLists.all((await this.ids()).filter((id) => id !== except))
    if (ofSnapshots === undefined) return undefined
    for (const layer of ofSnapshots) used.add(layer)
    const after = await this.#findOtherUsedLayers()
    if (after === undefined) return undefined
    for (const layer of after) used.add(layer)
    return used
  }
}
