import { existsSync } from 'node:fs'
import { link, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSnapshotId } from '@dormouse/contracts'
import { type SnapshotPaths, snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { isFolded as isFoldedImage, unfoldedName, unfoldImages } from '../image/fold-images.ts'
import { PageWorker } from '../image/page-worker.ts'
import { encodeManifest, type FullManifest } from '../storage/manifest.ts'
import { UNFINISHED } from '../storage/publish-snapshot.ts'
import { hashOfBuild } from '../template/template-build.ts'
import type { FoundSnapshot, SnapshotEngine } from './snapshot-engine.ts'

/**
 * Runs `work` with a snapshot as it travels: with plain pages, made for the moment when those on disk are folded, and
 * with the hash of its template as the host says it that has built it. Folded pages need memory that follows later on
 * the other host, and an earlier version cannot read them. Memory files are not in that directory. Pre: the memory files
 * of the snapshot are complete.
 */
export async function asItTravels<Value>(
  { host }: SnapshotEngine,
  { paths, manifest }: FoundSnapshot,
  work: (paths: SnapshotPaths) => Promise<Value>,
): Promise<Value> {
  const hash = hashOfBuild(manifest.template.hash)
  const isFolded = manifest.kind === 'full' && manifest.folded === true
  if (!isFolded && hash === manifest.template.hash) return work(paths)
  // The next server removes it, should this one end first.
  const plain = snapshotPaths(join(host.layout.snapshotsDir, `${UNFINISHED}${newSnapshotId()}`))
  await mkdir(plain.dir, { mode: 0o700 })
  try {
    for (const name of ['carried', 'touched', 'ahead'] as const)
      if (existsSync(paths[name])) await link(paths[name], plain[name])
    const described = manifest.kind === 'full' ? await writePlain(paths, plain, manifest) : manifest
    const template = { ...manifest.template, hash }
    await writeFile(plain.manifest, encodeManifest({ ...described, template }), { flag: 'wx', mode: 0o600 })
    return await work(plain)
  } finally {
    await removeTree(plain.dir)
  }
}

/** Writes the images with plain pages. */
async function writePlain(
  paths: SnapshotPaths,
  plain: SnapshotPaths,
  manifest: FullManifest,
): Promise<FullManifest> {
  if (manifest.folded !== true) {
    await mkdir(plain.images, { mode: 0o755 })
    for (const name of await readdir(paths.images))
      await link(join(paths.images, name), join(plain.images, name))
    const { generation: _generation, ...first } = manifest
    return first
  }
  await using worker = new PageWorker()
  await unfoldImages(paths, plain.images, worker)
  return await describePlain(plain, manifest, worker)
}

/** The first version of the snapshot on the other host: its directory has no generations. */
async function describePlain(
  { images: directory }: SnapshotPaths,
  manifest: FullManifest,
  worker: PageWorker,
): Promise<FullManifest> {
  const folded = manifest.images.filter(({ name }) => isFoldedImage(name))
  const made = await worker.sum(folded.map(({ name }) => join(directory, unfoldedName(name))))
  const images = [...manifest.images.filter(({ name }) => !isFoldedImage(name)), ...made]
  const bytes = { ...manifest.bytes, images: images.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) }
  const { generation: _generation, folded: _folded, ...rest } = manifest
  return { ...rest, images, bytes }
}
