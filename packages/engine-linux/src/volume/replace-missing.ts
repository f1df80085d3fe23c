import { chmod, constants, copyFile, link, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isInside } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'
import { writeDetached } from '../image/detached-file.ts'
import { readImage, writeImage } from '../image/image-file.ts'
import { MEMORY_PATH } from '../image/map-task.ts'
import { OpenFiles } from '../image/open-files.ts'
import { dropWatches } from '../image/watches.ts'
import { placeholder } from './detach-from-volumes.ts'
import { findMount, type VolumeFile } from './volume-files.ts'

export interface DetachGone {
  readonly imagesDir: string
  /** Where the snapshot's copies of programs are. */
  readonly memoryDir: string
  /** What is not on its volume as it was. */
  readonly gone: readonly VolumeFile[]
  /** A directory that does not exist yet. */
  readonly workDir: string
}

/** Makes `workDir`, with images to restore from in which what is gone is a deleted file. */
export async function detachGone({ imagesDir, memoryDir, gone, workDir }: DetachGone): Promise<void> {
  const files = new OpenFiles(await readImage(join(imagesDir, 'files.img')))
  const copies = new Set(await readdir(memoryDir))
  for (const { fileId, library } of gone)
    if (library !== undefined && copies.has(library)) files.relax(BigInt(fileId), MEMORY_PATH + library)
  const goneFiles = gone.filter(({ kind, library }) => kind === 'file' && !(library && copies.has(library)))
  for (const { fileId } of goneFiles) files.relax(BigInt(fileId), placeholder(String(fileId)))
  const goneWatches = new Set(
    gone.filter(({ kind }) => kind === 'watch').map(({ fileId, path }) => `${fileId} ${path}`),
  )
  dropWatches(files.image, ({ fileId, path }) => goneWatches.has(`${fileId} ${path}`))
  await mkdir(workDir, { mode: 0o755 })
  await writeImage(join(workDir, 'files.img'), files.image)
  const detached = goneFiles.map(({ fileId, mode, mappedBytes }) => ({
    fileId: BigInt(fileId),
    mode,
    sizeBytes: BigInt(mappedBytes),
  }))
  const own = new Set(['files.img', ...(await writeDetached(imagesDir, workDir, detached))])
  // Restoring happens without privileges over the host; the directory above keeps everybody else out.
  for (const name of own) await chmod(join(workDir, name), 0o644)
  for (const name of await readdir(imagesDir)) if (!own.has(name)) await share(imagesDir, workDir, name)
}

/** A file that the snapshot's processes need and that one of the added mounts would lie over. */
export async function findHidden({
  imagesDir,
  added,
  before,
}: {
  readonly imagesDir: string
  readonly added: readonly VolumeMount[]
  readonly before: readonly VolumeMount[]
}): Promise<{ path: string; mount: string } | undefined> {
  const files = new OpenFiles(await readImage(join(imagesDir, 'files.img')))
  for (const path of files.paths) {
    const mount = findMount(added, path)
    // The directory itself is there again; and what was on a volume is looked for there.
    if (mount === undefined || path === mount.path || before.some((each) => isInside(path, each.path)))
      continue
    return { path, mount: mount.path }
  }
  return undefined
}

async function share(from: string, to: string, name: string): Promise<void> {
  const [source, target] = [join(from, name), join(to, name)]
  await link(source, target).catch(() =>
    copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE),
  )
}
