import { existsSync } from 'node:fs'
import { constants, copyFile, link, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { Layout, SnapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { unfoldImages } from '../image/fold-images.ts'
import { PageWorker } from '../image/page-worker.ts'
import type { ImageThreads } from '../image-thread/image-threads.ts'
import { getTemplateBuild } from '../template/template-store.ts'
import { CHAIN_MAX_LAYERS } from './choose-layers-to-merge.ts'
import { describeFiles } from './describe-files.ts'
import { findWasteful } from './find-wasteful.ts'
import { beginGeneration, publishGeneration, removeFormer } from './generation.ts'
import type { FullManifest, Manifest } from './manifest.ts'
import { mergeChain } from './merge-chain.ts'
import { explainNoSpace } from './publish-snapshot.ts'
import type { SnapshotStore } from './snapshot-store.ts'
import type { VerifiedSnapshots } from './verify-snapshot.ts'

/** Folding saves disk space, and costs the next wake some milliseconds. */
export const FOLD_AFTER_MS = 60_000

export interface ImproveSnapshot {
  readonly layout: Layout
  readonly dataDir: string
  readonly store: SnapshotStore
  readonly imageThreads: ImageThreads
  readonly verified: VerifiedSnapshots
  readonly signal: AbortSignal
  readonly mayFold: () => boolean
}

/**
 * Makes a snapshot faster to restore, if there is something to gain: a new version with the same memory and the same
 * files replaces the old one. Returns whether it did. A restore at any moment finds one of the two, complete.
 * Pre: no layer is collected meanwhile.
 */
export async function improveSnapshot(id: SnapshotId, parts: ImproveSnapshot): Promise<boolean> {
  const { paths, manifest } = await parts.store.get(id)
  try {
    return await makeVersion(paths, manifest, parts)
  } catch (error) {
    if (!existsSync(paths.manifest))
      throw new DormouseError('not_found', 'The snapshot was deleted.', { cause: error })
    throw explainNoSpace(error, 'The disk is full; the snapshot stays as it was.')
  }
}

async function makeVersion(
  paths: SnapshotPaths,
  manifest: Manifest,
  { layout, dataDir, store, imageThreads, verified, signal, mayFold }: ImproveSnapshot,
): Promise<boolean> {
  const wasteful = await findWasteful(paths, manifest, { imageThreads, signal })
  const isFoldable = manifest.kind === 'full' && canFold(manifest) && mayFold()
  if (wasteful.length === 0 && manifest.layers.length <= CHAIN_MAX_LAYERS && !isFoldable) return false
  const canClone = await canShareBlocks(layout.snapshotsDir)
  const { rootfs } = await getTemplateBuild(dataDir, manifest.template)
  const findUsedByOthers = async () => (await store.findUsedLayers(manifest.id)) ?? new Set(manifest.layers)
  const layers = await mergeChain({
    ...{ layout, paths, manifest, rootfs, findUsedByOthers, imageThreads, canClone, signal },
  })
  if (wasteful.length === 0 && layers === undefined && !isFoldable) return false

  const work = await beginGeneration(paths.dir)
  try {
    let next: Manifest = { ...manifest, layers: layers ?? manifest.layers }
    if ((wasteful.length > 0 || isFoldable) && next.kind === 'full') {
      const version = await writeVersion({
        ...{ paths, work, manifest: next, wasteful, imageThreads, signal },
        isFolded: next.folded === true || isFoldable,
      })
      // A restore would verify it too, and need not do it again.
      await verified.verifyOnce({ ...work, dir: paths.dir }, version)
      next = version
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

/** A sandbox that wakes soon again does not pay for it. */
function canFold(manifest: Manifest): boolean {
  if (manifest.kind === 'files' || manifest.folded === true) return false
  return Math.abs(Date.now() - Date.parse(manifest.createdAt)) >= FOLD_AFTER_MS
}

/** Whether it is too early to fold the snapshot, and not done. */
export function isFoldedLater(manifest: Manifest): boolean {
  return manifest.kind === 'full' && manifest.folded !== true && !canFold(manifest)
}

interface WriteVersion extends Pick<ImproveSnapshot, 'imageThreads' | 'signal'> {
  readonly paths: SnapshotPaths
  readonly work: SnapshotPaths
  readonly manifest: FullManifest
  readonly wasteful: readonly string[]
  readonly isFolded: boolean
}

/** Writes images and memory files of the next version into `work`. */
async function writeVersion(version: WriteVersion): Promise<FullManifest> {
  const { paths, work, manifest, wasteful, imageThreads, signal, isFolded } = version
  await using worker = new PageWorker({ isIdle: true, signal })
  const generation = (manifest.generation ?? 0) + 1
  const memoryId = `${manifest.id}g${generation}`
  const unfolded = join(work.dir, 'unfolded')
  if (manifest.folded === true) await unfoldImages(paths, unfolded, worker)
  const from = manifest.folded === true ? { ...paths, images: unfolded } : paths
  await imageThreads.use(async (thread) => {
    await thread.run('consolidate', { from, to: work, names: wasteful, memoryId }, worker)
    if (isFolded) await thread.run('foldImages', { paths: work }, worker)
  })
  await removeTree(unfolded)
  if (existsSync(paths.carried)) await link(paths.carried, work.carried)
  const described = await describeFiles(work, worker)
  return { ...manifest, generation, ...described, ...(isFolded && { folded: true as const }) }
}

/** Whether a copy of a file shares its blocks with the original on this file system. */
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
