import { join } from 'node:path'
import { readImage } from '../image/image-file.ts'
import { OpenFiles } from '../image/open-files.ts'
import { PageWorker } from '../image/page-worker.ts'

/** What CRIU calls the names it gives to files that are open, were deleted, and have other names left. */
const REMAP_NAME = /(^|\/)link_remap\.\d+$/

/**
 * Removes the names that a dump gave to files of a sandbox: a restore would have done it. Nothing that goes wrong here is worth
 * more than letting the sandbox go on.
 * Pre: its processes are stopped.
 */
export async function removeRemapLinks({ raw, firstPid }: { raw: string; firstPid: number }): Promise<void> {
  const image = await readImage(join(raw, 'files.img')).catch(() => undefined)
  if (image === undefined) return
  const names = [...new OpenFiles(image).paths].filter((path) => REMAP_NAME.test(path))
  if (names.length === 0) return
  await using worker = new PageWorker()
  // Through the sandbox's own root: the kernel must not find a layer of a mounted overlay changed.
  await worker.unlinkBeneath(`/proc/${firstPid}/root`, names).catch(() => {})
}
