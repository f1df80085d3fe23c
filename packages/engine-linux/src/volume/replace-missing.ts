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

export interface ReplaceMissing {
  readonly imagesDir: string
  /** Where the snapshot's copies of programs are. */
  readonly memoryDir: string
  /** Files that are not on their volume as they were. */
  readonly gone: readonly VolumeFile[]
  /** A directory that does not exist yet. */
  readonly workDir: string
}

/** Makes `workDir`, with images in which the missing files are deleted files. */
export async function replaceMissing({ imagesDir, memoryDir, gone, workDir }: ReplaceMissing): Promise<void> {
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
  // CRIU restores without privileges over the host; the directory above keeps other users out.
  for (const name of own) await chmod(join(workDir, name), 0o644)
  for (const name of await readdir(imagesDir)) if (!own.has(name)) await share(imagesDir, workDir, name)
}

/** Finds a file that the snapshot's processes have open and that one of the added mounts would hide. */
export async function findHiddenFile({
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
    // The mount point itself exists again, and files that were on a volume are looked for there.
    if (mount === undefined || path === mount.path || before.some((each) => isInside(path, each.path)))
      continue
    return { path, mount: mount.path }
  }
  return undefined
}

async function share(from: string, to: string, name: string): Promise<void> {
  const [source, target] = [join(from, name), join(to, name)]
  // On failure copies: another file system, or one without hard links.
  await link(source, target).catch(() =>
    copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE),
  )
}
