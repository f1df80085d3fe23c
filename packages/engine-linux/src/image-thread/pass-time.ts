import { chmod, constants, copyFile, link, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type ImageFile, readImage, writeImage } from '../image/image-file.ts'
import { passTimeOfTask } from '../image/task-timers.ts'
import { passTimeOfTimers } from '../image/timers.ts'

/** Returns false, and makes nothing, when no timer is set. Otherwise `workDir` has images in which time has passed. */
export async function passTime({
  imagesDir,
  workDir,
  elapsedNs,
}: {
  readonly imagesDir: string
  /** A directory that does not exist yet. */
  readonly workDir: string
  readonly elapsedNs: bigint
}): Promise<boolean> {
  const names = await readdir(imagesDir)
  const changed = new Map<string, ImageFile>()
  const files = await readImage(join(imagesDir, 'files.img'))
  if (passTimeOfTimers(files, elapsedNs)) changed.set('files.img', files)
  for (const name of names.filter((candidate) => /^core-\d+\.img$/.test(candidate))) {
    const core = await readImage(join(imagesDir, name))
    if (core.records[0] !== undefined && passTimeOfTask(core.records[0].message, elapsedNs))
      changed.set(name, core)
  }
  if (changed.size === 0) return false
  await mkdir(workDir, { mode: 0o755 })
  for (const name of names) {
    const [source, target] = [join(imagesDir, name), join(workDir, name)]
    const image = changed.get(name)
    if (image === undefined) {
      // On failure copies: another file system, or one without hard links.
      await link(source, target).catch(() =>
        copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE),
      )
      continue
    }
    await writeImage(target, image)
    // CRIU restores without privileges over the host; the directory above keeps other users out.
    await chmod(target, 0o644)
  }
  return true
}
