import { existsSync } from 'node:fs'
import { mkdir, readdir, rename } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isSnapshotId } from '@dormouse/contracts'
import { type Layout, type SnapshotPaths, snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { syncDirectory, syncFileSystem, writeDurably } from '../host/sync-files.ts'
import { encodeManifest, type Manifest, readManifest } from './manifest.ts'
import { isBeingRead, untilNoReaders } from './snapshot-readers.ts'

/** Prefix of directories that will become a generation of a snapshot, or a layer. */
export const UNPUBLISHED = '.upkeep-'
const GENERATION = /^generation-\d+$/
/** Entries of the first generation, which has no directory of its own. */
const FIRST = ['images', 'memory', 'carried']

/**
 * Paths of one version of a snapshot. The manifest says which version is in use, and is replaced in one step. A reader
 * takes all paths from the manifest it has read, so it never sees parts of two versions.
 */
export function generationPaths(snapshotDir: string, generation: number | undefined): SnapshotPaths {
  const first = snapshotPaths(snapshotDir)
  if (generation === undefined) return first
  const own = snapshotPaths(join(snapshotDir, `generation-${generation}`))
  // Hints are about the snapshot, and are made again for a new version.
  return { ...first, images: own.images, memory: own.memory, carried: own.carried }
}

/** Makes an empty directory beside the snapshot for its next version. */
export async function beginGeneration(snapshotDir: string): Promise<SnapshotPaths> {
  const work = snapshotPaths(join(dirname(snapshotDir), `${UNPUBLISHED}${basename(snapshotDir)}`))
  await removeTree(work.dir)
  await mkdir(work.dir, { mode: 0o700 })
  return work
}

/**
 * Makes `manifest` the one that restores find from now on, with the files in `work` if it has a new generation. Throws
 * ENOENT when the snapshot was deleted meanwhile. Until the last rename the old version is complete and in use.
 */
export async function publishGeneration(
  work: SnapshotPaths,
  { snapshotDir, before, manifest }: { snapshotDir: string; before: Manifest; manifest: Manifest },
): Promise<void> {
  await syncFileSystem(work.dir)
  await writeDurably(work.manifest, encodeManifest(manifest))
  const { dir, manifest: inUse } = snapshotPaths(snapshotDir)
  if (manifest.generation === before.generation) {
    await syncDirectory(work.dir)
    await rename(work.manifest, inUse)
  } else {
    const own = join(dir, `generation-${manifest.generation}`)
    await removeTree(own)
    await rename(work.dir, own)
    await syncDirectory(own)
    await syncDirectory(dir)
    await rename(join(own, 'manifest.json'), inUse)
  }
  await syncDirectory(dir)
}

/** Removes the versions that are not in use, when no reader has them open any more. */
export async function removeFormer(snapshotDir: string, manifest: Manifest): Promise<void> {
  await untilNoReaders(snapshotDir)
  await removeOthers(snapshotDir, manifest.generation)
}

/** Removes what interrupted upkeep left. Pre: no upkeep is running. */
export async function removeUnpublished(layout: Layout): Promise<void> {
  for (const parent of [layout.snapshotsDir, layout.layersDir]) {
    for (const name of await readdir(parent))
      if (name.startsWith(UNPUBLISHED)) await removeTree(join(parent, name))
  }
  for (const id of (await readdir(layout.snapshotsDir)).filter(isSnapshotId)) {
    const { dir, manifest } = layout.snapshot(id)
    // Most snapshots have one version. With thousands of them, reading every manifest would take long.
    if (!(await readdir(dir).catch(() => [])).some((name) => GENERATION.test(name))) continue
    // A damaged manifest may be repaired, and must then find the files that it names.
    const found = await readManifest(manifest).catch(() => undefined)
    if (found !== undefined && !isBeingRead(dir)) await removeOthers(dir, found.generation)
  }
}

async function removeOthers(snapshotDir: string, generation: number | undefined): Promise<void> {
  // Empty when the snapshot was deleted meanwhile.
  const names = await readdir(snapshotDir).catch(() => [])
  const isOther = (name: string) =>
    GENERATION.test(name)
      ? name !== `generation-${generation}`
      : FIRST.includes(name) && generation !== undefined
  for (const name of names.filter(isOther)) {
    const path = join(snapshotDir, name)
    if (existsSync(path)) await removeTree(path)
  }
}
