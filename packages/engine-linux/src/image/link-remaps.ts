import { join } from 'node:path'
import { readImage } from './image-file.ts'
import { OpenFiles } from './open-files.ts'
import { PageWorker } from './page-worker.ts'

/** The names that CRIU gives to files that are open, lost their name, and have another one left. */
const REMAP_NAME = /(^|\/)link_remap\.\d+$/

/** Finds the names that a dump gave to files of a sandbox. */
export async function findRemapLinks(rawDir: string): Promise<string[]> {
  const files = new OpenFiles(await readImage(join(rawDir, 'files.img')))
  return [...files.paths].filter((path) => REMAP_NAME.test(path))
}

/**
 * Removes the names that a restore would have removed. A failure is ignored: letting the sandbox continue matters more.
 * Pre: its processes are stopped, and no snapshot has its files: a snapshot needs these names.
 */
export async function removeRemapLinks(firstPid: number, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await using worker = new PageWorker()
  // Through the sandbox's own root: a layer of a mounted overlay must not be changed directly.
  await worker.unlinkBeneath(`/proc/${firstPid}/root`, names).catch(() => {})
}
