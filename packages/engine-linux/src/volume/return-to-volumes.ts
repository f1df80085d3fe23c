import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'
import { onImageThread } from '../image-thread/image-threads.ts'
import { wholePages } from './leave-volumes.ts'
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
  const { memoryDir } = returning
  await onImageThread((thread) => thread.run('detachGone', { imagesDir, memoryDir, workDir, gone }))
  return { imagesDir: workDir, forget: () => rm(workDir, { recursive: true, force: true }) }
}

/** Refuses mounts that the snapshot did not have and that would lie over files which its processes need. */
export async function refuseHiding(
  imagesDir: string,
  { mounts, before }: { mounts: readonly VolumeMount[]; before: readonly VolumeMount[] },
): Promise<void> {
  const added = mounts.filter(({ path }) => !before.some((mount) => mount.path === path))
  if (added.length === 0) return
  const hidden = await onImageThread((thread) => thread.run('findHidden', { imagesDir, added, before }))
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

async function isThere({ mounts, volumesDir }: ReturnToVolumes, file: VolumeFile): Promise<boolean> {
  const mount = findMount(mounts, file.path)
  if (mount === undefined || (mount.readOnly && file.isWritten)) return false
  const found = await findInVolume(join(volumesDir, mount.volumeId), file.path.slice(mount.path.length))
  if (found === undefined || file.kind === 'watch') return found !== undefined
  if ((Number(found.mode) & TYPE) !== (file.mode & TYPE)) return false
  if (file.library !== undefined) return libraryName(found) === file.library
  return !found.isFile() || wholePages(found.size) >= BigInt(file.privateBytes)
}
