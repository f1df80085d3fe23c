import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotPaths } from '../host/layout.ts'
import { isLibraryCopy } from '../image/library-name.ts'
import { PageWorker } from '../image/page-worker.ts'
import type { ImageThreads } from '../image-thread/image-threads.ts'
import type { Manifest } from './manifest.ts'

const STAT_BLOCK_BYTES = 512
/** Rewriting memory for less is not worth the work. */
const WASTE_MIN_BYTES = 8 * 1024 ** 2
/** The part of all memory files of a snapshot that may be waste. Less waste means more rewriting. */
const WASTE_RATIO = 8

interface StoredFile {
  readonly name: string
  readonly storedBytes: number
  readonly wasteBytes: number
}

/**
 * Returns the memory files of a snapshot that hold too many bytes that no process maps any more: memory that was freed,
 * or that a later memory file has newer content of. Files that other snapshots or burrows use are left alone.
 */
export async function findWasteful(
  paths: SnapshotPaths,
  manifest: Manifest,
  { imageThreads, signal }: { imageThreads: ImageThreads; signal: AbortSignal },
): Promise<string[]> {
  if (manifest.kind === 'files') return []
  const own = await findOwn(paths, manifest.memory)
  // Everything in the memory files of the last sleep is mapped.
  const former = own.filter(({ name }) => !name.startsWith(`${manifest.id}-`))
  if (sum(former, 'storedBytes') < WASTE_MIN_BYTES) return []
  const mapped = await imageThreads.use((thread) => thread.run('findMappedRanges', { from: paths }))
  const ranges = new Map(mapped.map((file) => [file.name, file.ranges]))
  await using worker = new PageWorker({ isIdle: true, signal })
  const weighed = await worker.weigh(
    former.map(({ name }) => ({ path: join(paths.memory, name), ranges: ranges.get(name) ?? [] })),
  )
  const files = former.map((file, index) => ({
    ...file,
    wasteBytes: Math.max(0, file.storedBytes - (weighed[index] ?? 0)),
  }))
  const wasteBytes = sum(files, 'wasteBytes')
  if (wasteBytes < WASTE_MIN_BYTES || wasteBytes * WASTE_RATIO < sum(own, 'storedBytes')) return []
  const wasteful = files.filter((file) => file.wasteBytes * 2 * WASTE_RATIO >= file.storedBytes)
  const { bavail, bsize } = await statfs(paths.dir)
  // Leaves half of the free space to sandboxes.
  const neededBytes = sum(wasteful, 'storedBytes') - sum(wasteful, 'wasteBytes')
  return neededBytes * 2 > bavail * bsize ? [] : wasteful.map(({ name }) => name)
}

async function findOwn(paths: SnapshotPaths, memory: readonly { name: string }[]): Promise<StoredFile[]> {
  const found = await Promise.all(
    memory.map(async ({ name }) => {
      const { nlink, blocks } = await stat(join(paths.memory, name))
      return { name, nlink, storedBytes: blocks * STAT_BLOCK_BYTES, wasteBytes: 0 }
    }),
  )
  return found.filter(({ name, nlink }) => nlink === 1 && !isLibraryCopy(name))
}

function sum(files: readonly StoredFile[], what: 'storedBytes' | 'wasteBytes'): number {
  return files.reduce((bytes, file) => bytes + file[what], 0)
}
