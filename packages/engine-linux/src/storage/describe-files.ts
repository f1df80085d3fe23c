import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotPaths } from '../host/layout.ts'
import type { PageWorker } from '../image/page-worker.ts'
import type { FullManifest } from './manifest.ts'

const STAT_BLOCK_BYTES = 512

/**
 * Describes the images and memory files of a new version for its manifest. Files that are links to the old version keep
 * their checksums; new files get theirs.
 */
export async function describeFiles(
  work: SnapshotPaths,
  worker: PageWorker,
): Promise<Pick<FullManifest, 'images' | 'memory' | 'bytes'>> {
  const images = await worker.seal(work.images)
  const paths = (await readdir(work.memory)).sort().map((name) => join(work.memory, name))
  const memory = await worker.recall(paths)
  const stats = await Promise.all(paths.map((path) => stat(path)))
  const imageBytes = images.reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0)
  const memoryBytes = stats.reduce((bytes, { blocks }) => bytes + blocks * STAT_BLOCK_BYTES, 0)
  return { images, memory, bytes: { images: imageBytes, memory: memoryBytes } }
}
