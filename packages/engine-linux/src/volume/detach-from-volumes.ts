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

/** Where a file that is not on its volume any more is made, opened and removed again: beside everything that a sandbox has. */
export function placeholder(name: string): string {
  return `/.volume-file-${name}`
}

interface LeaveVolumes {
  /** A complete dump. */
  readonly rawDir: string
  /** Its files.img, which is changed. */
  readonly files: OpenFiles
  readonly mounts: readonly VolumeMount[]
  readonly volumesDir: string
}

/**
 * While a sandbox sleeps others change its volumes. So nothing that CRIU checks at its return is to hold for what is open there, and what has
 * been deleted already moves into the sandbox's own files: a volume may be read-only, or the directory gone. Answers what has to be looked
 * after when it wakes. Refuses what would break a promise to others, or could not be brought back.
 */
export async function leaveVolumes({
  rawDir,
  files,
  mounts,
  volumesDir,
}: LeaveVolumes): Promise<VolumeFile[]> {
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
      // Files of one ghost are one file, and stay so under one name.
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

/** One name of several is gone. CRIU has made another one beside it, on the volume, which only one of many could wake from. */
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
  for (const { link, mount } of places)
    await removeInVolume(join(volumesDir, mount.volumeId), link.slice(mount.path.length)).catch(() => {})
  const [first] = places
  if (first !== undefined)
    throw refused(`a process has ${first.path} open, on a volume, where it was deleted but has another name`)
}

interface Mapped {
  readonly bytes: number
  readonly privateBytes: number
  /** What is in it is executed. */
  readonly isRun: boolean
}

/** How far each file is mapped by any task, by its id. */
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
