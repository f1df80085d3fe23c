import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'
import { libraryName } from '../image/library-name.ts'
import type { ImageThreads } from '../image-thread/image-threads.ts'
import { wholePages } from '../volume/detach-from-volumes.ts'
import { findMount, type VolumeFile } from '../volume/volume-files.ts'
import { findInVolume } from '../volume/walk-volume.ts'
import type { BrokenConnections } from './explain-criu.ts'

/** The bits of a mode that say what kind of file it is. */
const FILE_TYPE = 0o170000

export interface PrepareImages {
  readonly imageThreads: ImageThreads
  readonly imagesDir: string
  /** Where the snapshot's copies of programs are. */
  readonly memoryDir: string
  /** What the saved processes had open on volumes. */
  readonly volumeFiles: readonly VolumeFile[]
  /** The volumes that the restored burrow mounts. */
  readonly mounts: readonly VolumeMount[]
  readonly volumesDir: string
  /** A directory that does not exist yet. */
  readonly workDir: string
  /** Timers expire this much earlier than in the snapshot. */
  readonly elapsedNs: bigint
  /** Connections that an earlier try could not restore. */
  readonly broken?: BrokenConnections | undefined
}

/** Images that CRIU restores from. Disposing removes those that were made for one restore. */
export interface PreparedImages extends AsyncDisposable {
  readonly directory: string
}

/**
 * Finds the files on volumes that the saved processes had open. Where one is gone, or cannot be opened as it was, this
 * makes changed images in `workDir`, in which it is a deleted file. Where timers are set and time has passed, it makes
 * changed images as well, and where connections are broken. Otherwise the restore uses the images of the snapshot.
 */
export async function prepareImages(prepare: PrepareImages): Promise<PreparedImages> {
  const { imageThreads, imagesDir, memoryDir, volumeFiles, workDir, elapsedNs, broken } = prepare
  const made: string[] = []
  const gone: VolumeFile[] = []
  for (const file of volumeFiles) if (!(await isThere(prepare, file))) gone.push(file)
  if (gone.length > 0) {
    await imageThreads.use((thread) => thread.run('replaceMissing', { imagesDir, memoryDir, workDir, gone }))
    made.push(workDir)
  }
  if (elapsedNs > 0n) {
    const pass = { imagesDir: made[0] ?? imagesDir, workDir: `${workDir}-later`, elapsedNs }
    if (await imageThreads.use((thread) => thread.run('passTime', pass))) made.push(pass.workDir)
  }
  if (broken !== undefined) {
    const close = { imagesDir: made.at(-1) ?? imagesDir, workDir: `${workDir}-closed`, ...broken }
    await imageThreads.use((thread) => thread.run('closeConnections', close))
    made.push(close.workDir)
  }
  return {
    directory: made.at(-1) ?? imagesDir,
    [Symbol.asyncDispose]: async () => {
      for (const directory of made) await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Refuses mounts that the snapshot did not have and that would hide files which its processes have open. */
export async function refuseMountsOverOpenFiles(
  imageThreads: ImageThreads,
  imagesDir: string,
  { mounts, before }: { mounts: readonly VolumeMount[]; before: readonly VolumeMount[] },
): Promise<void> {
  const added = mounts.filter(({ path }) => !before.some((mount) => mount.path === path))
  if (added.length === 0) return
  const hidden = await imageThreads.use((thread) =>
    thread.run('findHiddenFile', { imagesDir, added, before }),
  )
  if (hidden === undefined) return
  throw new DormouseError(
    'invalid_argument',
    `volumes: ${hidden.mount} holds files that are in use, such as ${hidden.path}`,
    {
      hint: 'Mount the volume elsewhere, for example in /mnt or /data.',
      details: { field: 'volumes' },
    },
  )
}

async function isThere({ mounts, volumesDir }: PrepareImages, file: VolumeFile): Promise<boolean> {
  const mount = findMount(mounts, file.path)
  if (mount === undefined || (mount.readOnly && file.isWritten)) return false
  const found = await findInVolume(join(volumesDir, mount.volumeId), file.path.slice(mount.path.length))
  if (found === undefined || file.kind === 'watch') return found !== undefined
  if ((Number(found.mode) & FILE_TYPE) !== (file.mode & FILE_TYPE)) return false
  if (file.library !== undefined) return libraryName(found) === file.library
  return !found.isFile() || wholePages(found.size) >= BigInt(file.privateBytes)
}
