import { type BigIntStats, constants, existsSync } from 'node:fs'
import { chmod, chown, copyFile, link } from 'node:fs/promises'
import { join } from 'node:path'
import type { VolumeMount } from '@dormouse/engine'
import { UID_BASE } from '../template/shifted-root.ts'
import { findMount, type VolumeFile } from './volume-files.ts'
import { withFileInVolume } from './walk-volume.ts'

const PREFIX = 'library-'

/**
 * Programs and libraries that a process runs from a volume. Somebody who updates them while it sleeps puts new files in their place; awake, it
 * would have gone on with the old ones, and with the new ones it crashes. So a snapshot has copies, beside its memory files: where the
 * file system can, they share their blocks with the volume. The name tells which version it is.
 */
export function libraryName({ ino, mtimeNs, size }: BigIntStats): string {
  return `${PREFIX}${ino}-${mtimeNs}-${size}`
}

export function isLibraryCopy(name: string): boolean {
  return name.startsWith(PREFIX)
}

interface KeepLibraries {
  readonly volumeFiles: readonly VolumeFile[]
  readonly mounts: readonly VolumeMount[]
  readonly volumesDir: string
  /** Of the burrow, where those may be that an earlier snapshot had. */
  readonly from: string
  readonly into: string
}

/**
 * Answers the paths of the copies it made. A file that changes under our eyes has none, and is then a file that was changed. One that a
 * process still runs in an older version is among the memory files already.
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
  // For root inside, like memory; executable, because the kernel asks that of the file that a process runs.
  await chmod(copy, 0o500)
  await chown(copy, UID_BASE, UID_BASE)
  return true
}
