import { constants, existsSync } from 'node:fs'
import { chmod, chown, copyFile, link } from 'node:fs/promises'
import { join } from 'node:path'
import type { VolumeMount } from '@dormouse/engine'
import { libraryName } from '../image/library-name.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { findMount, type VolumeFile } from './volume-files.ts'
import { withFileInVolume } from './walk-volume.ts'

interface KeepLibraries {
  readonly volumeFiles: readonly VolumeFile[]
  readonly mounts: readonly VolumeMount[]
  readonly volumesDir: string
  /** Memory directory of the burrow, which may have copies of an earlier snapshot. */
  readonly from: string
  readonly into: string
}

/**
 * Copies the programs and libraries that processes run from volumes, beside the memory files of a snapshot, and returns
 * the paths of the copies. While the sandbox sleeps, an update may replace them on the volume; a process that continued
 * with the new files would crash. Where the file system allows it, a copy shares its blocks with the volume. A file
 * that changes while it is copied gets no copy, and counts as changed. Older versions that processes still run are
 * among the memory files already.
 */
export async function keepLibraries(keep: KeepLibraries): Promise<string[]> {
  const kept: string[] = []
  for (const { path, library } of keep.volumeFiles) {
    if (library === undefined || existsSync(join(keep.into, library))) continue
    const copy = join(keep.into, library)
    const known = join(keep.from, library)
    if (existsSync(known)) await link(known, copy)
    else if (!(await copyLibrary(keep, { path, library }))) continue
    kept.push(copy)
  }
  return kept
}

async function copyLibrary(
  { mounts, volumesDir, into }: KeepLibraries,
  { path, library }: { path: string; library: string },
): Promise<boolean> {
  const mount = findMount(mounts, path)
  if (mount === undefined) return false
  const volumeDir = join(volumesDir, mount.volumeId)
  const copy = join(into, library)
  const isCopied = await withFileInVolume(volumeDir, path.slice(mount.path.length), async (place, found) => {
    if (libraryName(found) !== library) return false
    await copyFile(place, copy, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    return true
  })
  if (isCopied !== true) return false
  // For root inside, like memory. Executable, because the kernel requires it of a program file.
  await chmod(copy, 0o500)
  await chown(copy, UID_BASE, UID_BASE)
  return true
}
