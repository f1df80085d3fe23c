import { join } from 'node:path'
import { readImage } from './image-file.ts'
import { OpenFiles } from './open-files.ts'
import { PageWorker } from './page-worker.ts'

/** Names of the links that CRIU makes for open files that were deleted at their path but have another hard link. */
const REMAP_NAME = /(^|\/)link_remap\.\d+$/

/** Finds the links that a dump made in the sandbox. */
export async function findRemapLinks(rawDir: string): Promise<string[]> {
  const files = new OpenFiles(await readImage(join(rawDir, 'files.img')))
  return [...files.paths].filter((path) => REMAP_NAME.test(path))
}

/**
 * Removes the links that a restore would have removed.
 * Pre: the processes are stopped, and no snapshot has these files: a snapshot needs the links.
 */
export async function removeRemapLinks(firstPid: number, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await using worker = new PageWorker()
  // Removes them through the sandbox's root: a layer of a mounted overlay must not be changed directly.
  await worker.unlinkBeneath(`/proc/${firstPid}/root`, names)
}
