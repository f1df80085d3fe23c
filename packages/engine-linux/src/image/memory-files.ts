import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type ImageFile, readImage } from './image-file.ts'
import { MEMORY_PATH, type PlacedBase } from './map-task.ts'
import { readAreas } from './memory-area.ts'
import { getUint } from './message.ts'
import type { OpenFiles } from './open-files.ts'
import type { PageMove } from './page-mover.ts'

const FDINFO_ID = 1
const MM_EXE_ID = 12

/** The names of the memory files that the tasks of a dump map. */
export function memoryFilesIn(files: OpenFiles): string[] {
  return [...new Set(files.paths)].flatMap((path) => {
    if (!path.startsWith(MEMORY_PATH)) return []
    const name = path.slice(MEMORY_PATH.length)
    // The directory is flat and read-only inside. The caller builds a host path from this name.
    if (!/^[\w-]+$/.test(name)) throw new Error(`${path} is not the name of a memory file`)
    return [name]
  })
}

/** Returns those of `ids` that no task maps, executes or has open. `mms` are the images of all tasks' memory. */
export async function findUnused(
  ids: ReadonlySet<bigint>,
  { imageDir, mms }: { imageDir: string; mms: readonly ImageFile[] },
): Promise<Set<bigint>> {
  const unused = new Set(ids)
  if (unused.size === 0) return unused
  for (const { records } of mms) {
    const mm = records[0]?.message ?? []
    unused.delete(getUint(mm, MM_EXE_ID))
    // Areas without a file have another number here: at worst a file that is not needed stays.
    for (const { fileId } of readAreas(mm)) unused.delete(fileId)
  }
  for (const name of (await readdir(imageDir)).filter((each) => /^fdinfo-\d+\.img$/.test(each))) {
    const { records } = await readImage(join(imageDir, name))
    for (const { message } of records) unused.delete(getUint(message, FDINFO_ID))
  }
  return unused
}

/** Where the bases are on the host, those of one file after the other. */
export function locateBases(
  bases: readonly PlacedBase[],
  directory: string,
  files: OpenFiles,
): (PageMove & { path: string })[] {
  const byFile = new Map<bigint, (PageMove & { path: string })[]>()
  for (const { fileId, from, to, lengthBytes } of bases) {
    const own = byFile.get(fileId) ?? []
    byFile.set(fileId, own)
    const name = files.findPath(fileId)?.slice(MEMORY_PATH.length) ?? ''
    own.push({ path: join(directory, name), from, to, lengthBytes })
  }
  return [...byFile.values()].flat()
}
