import { join } from 'node:path'
import { type ImageFile, readImage } from './image-file.ts'
import { MEMORY_PATH } from './map-task.ts'
import { isPrivateFile, isSharedFile, type MemoryArea, readAreas } from './memory-area.ts'
import { OpenFiles } from './open-files.ts'

/** Of the list of addresses and of the list of file ranges. Read-ahead works without the rest. */
const TOUCHED_MAX_BYTES = 1024 ** 2
/** Reading so many bytes more is faster than another request to the disk. */
const GAP_BYTES = 64 * 1024
/** A list that names more is of a process that has read all its memory. The rest is read later anyway. */
const AHEAD_MAX_BYTES = 256 * 1024 ** 2

interface Range {
  readonly start: number
  readonly end: number
}

type RangesByPid = Map<number, Range[]>

/**
 * Turns the addresses that processes touched (lines `PID START END`, and `PID START END w` for what they wrote) into
 * ranges of the files that their images map, in the form that native/src/read-ahead.h describes. Lines that fit nothing
 * are ignored. What was written comes first: it is little, and all of it was needed.
 */
export async function listAhead(imageDir: string, touched: string): Promise<string> {
  const { written, all } = parseTouched(touched)
  const files = new OpenFiles(await readImage(join(imageDir, 'files.img')))
  const firstFound = new Map<string, Range[]>()
  const found = new Map<string, Range[]>()
  for (const [pid, ranges] of all) {
    const mm = await readImage(join(imageDir, `mm-${pid}.img`)).catch(() => undefined)
    if (mm === undefined) continue
    const areas = mappedAreas(mm)
    addFileRanges(firstFound, { ranges: written.get(pid) ?? [], areas, files })
    addFileRanges(found, { ranges, areas, files })
  }
  return encode([firstFound, found])
}

function parseTouched(touched: string): { written: RangesByPid; all: RangesByPid } {
  const [written, all] = [new Map<number, Range[]>(), new Map<number, Range[]>()]
  for (const line of touched.slice(0, TOUCHED_MAX_BYTES).split('\n')) {
    const [, pid, start, end, isWritten] = /^(\d{1,9}) (\d{1,15}) (\d{1,15})( w)?$/.exec(line) ?? []
    if (pid === undefined || Number(start) >= Number(end)) continue
    const byPid = isWritten === undefined ? all : written
    const own = byPid.get(Number(pid)) ?? []
    own.push({ start: Number(start), end: Number(end) })
    byPid.set(Number(pid), own)
  }
  return { written, all }
}

function mappedAreas(mm: ImageFile): MemoryArea[] {
  return readAreas(mm.records[0]?.message ?? [])
    .filter((area) => isPrivateFile(area) || isSharedFile(area))
    .sort((one, other) => (one.start < other.start ? -1 : 1))
}

function addFileRanges(
  found: Map<string, Range[]>,
  { ranges, areas, files }: { ranges: readonly Range[]; areas: readonly MemoryArea[]; files: OpenFiles },
): void {
  const sorted = [...ranges].sort((one, other) => one.start - other.start)
  let at = 0
  for (const area of areas) {
    const path = files.findPath(area.fileId)
    if (path === undefined || path.includes('\n')) continue
    const [start, end] = [Number(area.start), Number(area.end)]
    const shift = Number(area.fileOffset) - start
    while ((sorted[at]?.end ?? Number.POSITIVE_INFINITY) <= start) at++
    for (let next = at; (sorted[next]?.start ?? end) < end; next++) {
      const range = sorted[next] as Range
      const own = found.get(path) ?? []
      own.push({ start: Math.max(range.start, start) + shift, end: Math.min(range.end, end) + shift })
      found.set(path, own)
    }
  }
}

/**
 * What was written comes first, then memory files: they are what a restore needs and no other sandbox has in memory.
 */
function encode(parts: readonly ReadonlyMap<string, readonly Range[]>[]): string {
  const isMemory = (path: string) => path.startsWith(MEMORY_PATH)
  const inOrder = parts.flatMap((found) =>
    [...found].sort(([one], [other]) => Number(isMemory(other)) - Number(isMemory(one))),
  )
  let [text, leftBytes] = ['', AHEAD_MAX_BYTES]
  for (const [path, ranges] of inOrder) {
    text += isMemory(path) ? `m ${path.slice(MEMORY_PATH.length)}\n` : `f ${path}\n`
    for (const { start, end } of joinNear(ranges)) {
      leftBytes -= end - start
      if (leftBytes < 0 || text.length > TOUCHED_MAX_BYTES - 100) return text
      text += `${start} ${end - start}\n`
    }
  }
  return text
}

function joinNear(ranges: readonly Range[]): Range[] {
  const joined: Range[] = []
  for (const { start, end } of [...ranges].sort((one, other) => one.start - other.start)) {
    const last = joined.at(-1)
    if (last === undefined || start - last.end > GAP_BYTES) joined.push({ start, end })
    else if (end > last.end) joined[joined.length - 1] = { start: last.start, end }
  }
  return joined
}
