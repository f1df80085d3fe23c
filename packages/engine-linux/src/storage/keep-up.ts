import { existsSync } from 'node:fs'
import { constants, copyFile, link, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { Layout, SnapshotPaths } from '../burrow/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { PageWorker } from '../image/page-worker.ts'
import { onImageThread } from '../image-thread/image-threads.ts'
import type { FullManifest, Manifest } from '../snapshot/manifest.ts'
import type { SnapshotStore } from '../snapshot/snapshot-store.ts'
import { verifyOnce } from '../snapshot/verify-snapshot.ts'
import { getTemplateBuild } from '../template/template-store.ts'
import { COPIED_MAX_BYTES } from './choose-areas.ts'
import { CHAIN_MAX_LAYERS } from './choose-run.ts'
import { compactLayers } from './compact-layers.ts'
import { beginGeneration, publishGeneration, removeFormer } from './generation.ts'

export interface KeepUp {
  readonly layout: Layout
  readonly dataDir: string
  readonly store: SnapshotStore
  readonly signal: AbortSignal
}

/**
 * Makes a snapshot faster to restore, if there is something to gain: a new version of it takes the place of the old one, and
 * shows the same memory and the same files. Answers whether it did. A restore at any moment finds one of the two, whole.
 * Pre: nothing is collected meanwhile.
 */
export async function keepUp(id: SnapshotId, parts: KeepUp): Promise<boolean> {
  const { paths, manifest } = await parts.store.get(id)
  try {
    return await makeVersion(paths, manifest, parts)
  } catch (error) {
    // Whatever was missing then went with the snapshot.
    if (!existsSync(paths.manifest))
      throw new DormouseError('not_found', 'The snapshot is gone.', { cause: error })
    throw noSpace(error)
  }
}

async function makeVersion(
  paths: SnapshotPaths,
  manifest: Manifest,
  { layout, dataDir, store, signal }: KeepUp,
): Promise<boolean> {
  if (!mayCopyMuch(manifest) && manifest.layers.length <= CHAIN_MAX_LAYERS) return false
  const canClone = await canShareBlocks(layout.snapshotsDir)
  const canConsolidate =
    mayCopyMuch(manifest) &&
    (await onImageThread((thread) => thread.run('canConsolidate', { from: paths, canClone })))
  const { rootfs } = await getTemplateBuild(dataDir, manifest.template)
  const findUsedByOthers = async () => (await store.findUsedLayers(manifest.id)) ?? new Set(manifest.layers)
  const layers = await compactLayers({ layout, paths, manifest, rootfs, findUsedByOthers, canClone, signal })
  if (!canConsolidate && layers === undefined) return false

  const work = await beginGeneration(paths.dir)
  try {
    let next: Manifest = { ...manifest, layers: layers ?? manifest.layers }
    if (canConsolidate && manifest.kind === 'full') {
      await using worker = new PageWorker({ isIdle: true, signal })
      const generation = (manifest.generation ?? 0) + 1
      const memoryId = `${manifest.id}g${generation}`
      const isDone = await onImageThread((thread) =>
        thread.run('consolidate', { from: paths, to: work, memoryId, canClone }, worker),
      )
      if (!isDone) throw new DormouseError('no_space', 'The disk has become too full for a new version.')
      if (existsSync(paths.carried)) await link(paths.carried, work.carried)
      const full = { ...manifest, layers: next.layers, generation, ...(await describeFiles(work, worker)) }
      // As a restore would, and remembered for it.
      await verifyOnce({ ...work, dir: paths.dir }, full)
      next = full
    }
    signal.throwIfAborted()
    for (const layer of next.layers) await stat(layout.layer(layer))
    await publishGeneration(work, { snapshotDir: paths.dir, before: manifest, manifest: next })
    await removeFormer(paths.dir, next)
    return true
  } finally {
    await removeTree(work.dir)
  }
}

function noSpace(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new DormouseError('no_space', 'The disk is full; the snapshot stays as it was.', { cause: error })
}

/** Without looking into it. */
function mayCopyMuch(manifest: Manifest): boolean {
  if (manifest.kind === 'files') return false
  const pages = manifest.images.filter(({ name }) => name.startsWith('pages-'))
  return pages.reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0) >= COPIED_MAX_BYTES
}

/** What is a link to the version before has the checksum it had there; what is new gets its own. */
async function describeFiles(
  work: SnapshotPaths,
  worker: PageWorker,
): Promise<Pick<FullManifest, 'images' | 'memory' | 'bytes'>> {
  const images = await worker.seal(work.images)
  const paths = (await readdir(work.memory)).sort().map((name) => join(work.memory, name))
  const memory = await worker.recall(paths)
  const stats = await Promise.all(paths.map((path) => stat(path)))
  const imageBytes = images.reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0)
  const memoryBytes = stats.reduce((bytes, { blocks }) => bytes + blocks * 512, 0)
  return { images, memory, bytes: { images: imageBytes, memory: memoryBytes } }
}

/** Whether a copy of a file costs nothing here. */
async function canShareBlocks(directory: string): Promise<boolean> {
  const [from, to] = [join(directory, '.upkeep-probe-1'), join(directory, '.upkeep-probe-2')]
  try {
    await copyFile('/proc/sys/kernel/ostype', from)
    await copyFile(from, to, constants.COPYFILE_FICLONE_FORCE)
    return true
  } catch {
    return false
  } finally {
    for (const path of [from, to]) await rm(path, { force: true })
  }
}
