import { chmod, constants, copyFile, link, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, isInside } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'
import { writeDetached } from '../image/detached-file.ts'
import { readImage, writeImage } from '../image/image-file.ts'
import { MEMORY_PATH } from '../image/map-task.ts'
import { OpenFiles } from '../image/open-files.ts'
import { dropWatches } from '../image/watches.ts'
import { placeholder, wholePages } from './leave-volumes.ts'
import { libraryName } from './library-copies.ts'
import { findMount, type VolumeFile } from './volume-files.ts'
import { findInVolume } from './walk-volume.ts'

const TYPE = 0o170000

export interface ReturnToVolumes {
  readonly imagesDir: string
  /** Where the snapshot's copies of programs are. */
  readonly memoryDir: string
  readonly volumeFiles: readonly VolumeFile[]
  /** What is going to be mounted. */
  readonly mounts: readonly VolumeMount[]
  readonly volumesDir: string
  /** A directory that does not exist yet. */
  readonly workDir: string
}

/**
 * The images to restore from, which are other ones than those of the snapshot when something that its processes have open on a volume is gone,
 * or cannot be opened as it was: to them it is then a deleted file. The answer's second part removes what was made.
 */
export async function returnToVolumes(
  returning: ReturnToVolumes,
): Promise<{ imagesDir: string; forget: () => Promise<void> }> {
  const { imagesDir, volumeFiles, workDir } = returning
  const gone: VolumeFile[] = []
  for (const file of volumeFiles) if (!(await isThere(returning, file))) gone.push(file)
  if (gone.length === 0) return { imagesDir, forget: async () => {} }

  const files = new OpenFiles(await readImage(join(imagesDir, 'files.img')))
  const copies = new Set(await readdir(returning.memoryDir))
  for (const { fileId, library } of gone)
    if (library !== undefined && copies.has(library)) files.relax(BigInt(fileId), MEMORY_PATH + library)
  const goneFiles = gone.filter(({ kind, library }) => kind === 'file' && !(library && copies.has(library)))
  for (const { fileId } of goneFiles) files.relax(BigInt(fileId), placeholder(String(fileId)))
  dropWatches(files.image, ({ fileId, path }) =>
    gone.some((file) => file.kind === 'watch' && BigInt(file.fileId) === fileId && file.path === path),
  )
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
  return { imagesDir: workDir, forget: () => rm(workDir, { recursive: true, force: true }) }
}

/** Refuses mounts that the snapshot did not have and that would lie over files which its processes need. */
export async function refuseHiding(
  imagesDir: string,
  { mounts, before }: { mounts: readonly VolumeMount[]; before: readonly VolumeMount[] },
): Promise<void> {
  const added = mounts.filter(({ path }) => !before.some((mount) => mount.path === path))
  if (added.length === 0) return
  const files = new OpenFiles(await readImage(join(imagesDir, 'files.img')))
  for (const path of files.paths) {
    const mount = findMount(added, path)
    // The directory itself is there again; and what was on a volume is looked for there.
    if (mount === undefined || path === mount.path || before.some((each) => isInside(path, each.path)))
      continue
    throw new DormouseError(
      'invalid_argument',
      `volumes: ${mount.path} holds files that are in use, such as ${path}`,
      {
        hint: 'Mount the volume elsewhere, for example in /mnt or /data.',
        details: { field: 'volumes' },
      },
    )
  }
}

async function isThere({ mounts, volumesDir }: ReturnToVolumes, file: VolumeFile): Promise<boolean> {
  const mount = findMount(mounts, file.path)
  if (mount === undefined || (mount.readOnly && file.isWritten)) return false
  const found = await findInVolume(join(volumesDir, mount.volumeId), file.path.slice(mount.path.length))
  if (found === undefined || file.kind === 'watch') return found !== undefined
  if ((Number(found.mode) & TYPE) !== (file.mode & TYPE)) return false
  if (file.library !== undefined) return libraryName(found) === file.library
  return !found.isFile() || wholePages(found.size) >= BigInt(file.privateBytes)
}

async function share(from: string, to: string, name: string): Promise<void> {
  const [source, target] = [join(from, name), join(to, name)]
  await link(source, target).catch(() =>
    copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE),
  )
}
