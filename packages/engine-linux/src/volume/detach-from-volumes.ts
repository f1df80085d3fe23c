import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'
import { readRemaps } from '../image/detached-file.ts'
import { readImage } from '../image/image-file.ts'
import { libraryName } from '../image/library-name.ts'
import { taskPids } from '../image/map-memory.ts'
import { isPrivateFile, isSharedFile, readAreas } from '../image/memory-area.ts'
import type { OpenFiles } from '../image/open-files.ts'
import { dropWatches, readSocketPaths, readWatches } from '../image/watches.ts'
import { findMount, type VolumeFile } from './volume-files.ts'
import { findInVolume, removeInVolume } from './walk-volume.ts'

const PAGE_BYTES = 4096n
const PROT_EXEC = 4n

/**
 * Path at which a restore makes, opens and removes a file that is no longer on its volume. Nothing of the sandbox is
 * there.
 */
export function placeholder(name: string): string {
  return `/.volume-file-${name}`
}

interface DetachFromVolumes {
  /** A complete dump. */
  readonly rawDir: string
  /** Its files.img; this function changes it. */
  readonly files: OpenFiles
  readonly mounts: readonly VolumeMount[]
  readonly volumesDir: string
}

/**
 * Prepares a dump for volumes that others change while the sandbox sleeps: removes what CRIU would check when it
 * reopens files there, and moves files that are already deleted into the sandbox's own files, because a volume may be
 * read-only or its directory missing.
 * Returns the files to look for at the wake. Refuses what would break a promise to other sandboxes, or could not be
 * restored.
 */
export async function detachFromVolumes({
  rawDir,
  files,
  mounts,
  volumesDir,
}: DetachFromVolumes): Promise<VolumeFile[]> {
  if (mounts.length === 0) return []
  const onVolumes = files.all.filter(({ path }) => findMount(mounts, path) !== undefined)
  const remaps = new Map((await readRemaps(rawDir)).map((remap) => [remap.fileId, remap]))
  await refuseLinked({
    files,
    mounts,
    volumesDir,
    links: [...remaps.values()].filter(({ kind }) => kind === 'linked'),
  })
  const socket = readSocketPaths(files.image).find((path) => findMount(mounts, path) !== undefined)
  if (socket !== undefined) throw refused(`a process has a socket at ${socket}, on a volume`)

  const mapped = await readMapped(rawDir)
  const programs = new Set(
    [...mapped].flatMap(([id, { isRun }]) => (isRun ? (files.findPath(id) ?? []) : [])),
  )
  const found: VolumeFile[] = []
  for (const { id, path, isWritten, mode, sizeBytes } of onVolumes) {
    const remap = remaps.get(id)
    if (remap !== undefined) {
      // Several entries of one ghost are one file, and stay one under this name.
      files.relax(id, placeholder(`deleted-${remap.target}`))
      continue
    }
    files.relax(id)
    const there = await find(mounts, volumesDir, path)
    const size = sizeBytes ?? there?.size ?? 0n
    const isProgram = programs.has(path) && !isWritten && there?.isFile() === true
    found.push({
      fileId: Number(id),
      kind: 'file',
      path,
      mode: Number(mode),
      isWritten,
      mappedBytes: Math.min(mapped.get(id)?.bytes ?? 0, Number(wholePages(size))),
      privateBytes: Math.min(mapped.get(id)?.privateBytes ?? 0, Number(wholePages(size))),
      ...(isProgram && { library: libraryName(there) }),
    })
  }
  dropWatches(files.image, ({ path }) => path === undefined)
  for (const { fileId, path } of readWatches(files.image)) {
    if (path === undefined || findMount(mounts, path) === undefined) continue
    found.push({
      fileId: Number(fileId),
      kind: 'watch',
      path,
      mode: 0,
      isWritten: false,
      mappedBytes: 0,
      privateBytes: 0,
    })
  }
  return found
}

/**
 * Refuses files with one name deleted and another one left. CRIU has given such a file a new name on the volume, from
 * which only one of many sandboxes could wake. This removes the new name.
 */
async function refuseLinked(parts: {
  files: OpenFiles
  mounts: readonly VolumeMount[]
  volumesDir: string
  links: readonly { readonly fileId: bigint; readonly target: bigint }[]
}): Promise<void> {
  const { files, mounts, volumesDir, links } = parts
  const places = links.flatMap(({ fileId, target }) => {
    const link = files.findPath(target)
    const mount = link === undefined ? undefined : findMount(mounts, link)
    return link === undefined || mount === undefined ? [] : { path: files.findPath(fileId), link, mount }
  })
  // A name that cannot be removed stays on the volume. The snapshot is refused in any case.
  for (const { link, mount } of places)
    await removeInVolume(join(volumesDir, mount.volumeId), link.slice(mount.path.length)).catch(() => {})
  const [first] = places
  if (first !== undefined)
    throw refused(`a process has ${first.path} open, on a volume, where it was deleted but has another name`)
}

interface Mapped {
  readonly bytes: number
  readonly privateBytes: number
  /** Whether it is mapped executable. */
  readonly isRun: boolean
}

/** How far each file is mapped by any task, by file id. */
async function readMapped(rawDir: string): Promise<Map<bigint, Mapped>> {
  const mapped = new Map<bigint, Mapped>()
  for (const pid of taskPids(await readdir(rawDir))) {
    const { records } = await readImage(join(rawDir, `mm-${pid}.img`))
    for (const area of readAreas(records[0]?.message ?? [])) {
      const isPrivate = isPrivateFile(area)
      if (!isPrivate && !isSharedFile(area)) continue
      const end = Number(area.fileOffset + (area.end - area.start))
      const { bytes = 0, privateBytes = 0, isRun = false } = mapped.get(area.fileId) ?? {}
      mapped.set(area.fileId, {
        bytes: Math.max(bytes, end),
        privateBytes: Math.max(privateBytes, isPrivate ? end : 0),
        isRun: isRun || (area.prot & PROT_EXEC) !== 0n,
      })
    }
  }
  return mapped
}

async function find(mounts: readonly VolumeMount[], volumesDir: string, path: string) {
  const mount = findMount(mounts, path)
  return mount && findInVolume(join(volumesDir, mount.volumeId), path.slice(mount.path.length))
}

export function wholePages(bytes: bigint): bigint {
  return ((bytes + PAGE_BYTES - 1n) / PAGE_BYTES) * PAGE_BYTES
}

function refused(reason: string): DormouseError {
  return new DormouseError('snapshot_refused', `The sandbox cannot be saved: ${reason}.`, {
    details: { reason },
  })
}
