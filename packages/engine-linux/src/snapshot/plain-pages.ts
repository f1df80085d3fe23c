import { existsSync } from 'node:fs'
import { link, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSnapshotId } from '@dormouse/contracts'
import { type SnapshotPaths, snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { isFolded, unfoldedName, unfoldImages } from '../image/fold-images.ts'
import { PageWorker } from '../image/page-worker.ts'
import { encodeManifest, type FullManifest } from '../storage/manifest.ts'
import { UNFINISHED } from '../storage/publish-snapshot.ts'
import type { FoundSnapshot, SnapshotEngine } from './snapshot-engine.ts'

/**
 * Runs `work` with a snapshot as it travels: with plain pages, made for the moment when those on disk are folded.
 * Folded pages need memory that follows later on the other host, and an earlier version cannot read them. Memory files
 * are not in that directory. Pre: the memory files of the snapshot are complete.
 */
export async function withPlainPages<Value>(
  { host }: SnapshotEngine,
  { paths, manifest }: FoundSnapshot,
  work: (paths: SnapshotPaths) => Promise<Value>,
): Promise<Value> {
  if (manifest.kind === 'files' || manifest.folded !== true) return work(paths)
  // The next server removes it, should this one end first.
  const plain = snapshotPaths(join(host.layout.snapshotsDir, `${UNFINISHED}${newSnapshotId()}`))
  await mkdir(plain.dir, { mode: 0o700 })
  try {
    await using worker = new PageWorker()
    await unfoldImages(paths, plain.images, worker)
    for (const name of ['carried', 'touched', 'ahead'] as const)
      if (existsSync(paths[name])) await link(paths[name], plain[name])
    const described = await describePlain(plain, manifest, worker)
    await writeFile(plain.manifest, encodeManifest(described), { flag: 'wx', mode: 0o600 })
    return await work(plain)
  } finally {
    await removeTree(plain.dir)
  }
}

/** The first version of the snapshot on the other host: its directory has no generations. */
async function describePlain(
  { images: directory }: SnapshotPaths,
  manifest: FullManifest,
  worker: PageWorker,
): Promise<FullManifest> {
  const folded = manifest.images.filter(({ name }) => isFolded(name))
  const made = await worker.sum(folded.map(({ name }) => join(directory, unfoldedName(name))))
  const images = [...manifest.images.filter(({ name }) => !isFolded(name)), ...made]
  const bytes = { ...manifest.bytes, images: images.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) }
  const { generation: _generation, folded: _folded, ...rest } = manifest
  return { ...rest, images, bytes }
}
