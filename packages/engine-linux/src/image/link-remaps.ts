import { join } from 'node:path'
import { readImage } from './image-file.ts'
import { OpenFiles } from './open-files.ts'
import { PageWorker } from './page-worker.ts'

/** What CRIU calls the names it gives to files that are open, were deleted, and have other names left. */
const REMAP_NAME = /(^|\/)link_remap\.\d+$/

/** The names that a dump gave to files of a sandbox. */
export async function findRemapLinks(rawDir: string): Promise<string[]> {
  const files = new OpenFiles(await readImage(join(rawDir, 'files.img')))
  return [...files.paths].filter((path) => REMAP_NAME.test(path))
}

/**
 * A restore would have removed them. Nothing that goes wrong here is worth more than letting the sandbox go on.
 * Pre: its processes are stopped, and its files are its own again: in a snapshot these names are needed.
 */
export async function removeRemapLinks(firstPid: number, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await using worker = new PageWorker()
  // Through the sandbox's own root: the kernel must not find a layer of a mounted overlay changed.
  await worker.unlinkBeneath(`/proc/${firstPid}/root`, names).catch(() => {})
}
