import { WireType } from '@bufbuild/protobuf/wire'
import {
  decodeMessage,
  encodeMessage,
  findUint,
  getAllBytes,
  getUint,
  type Message,
  setUint,
} from './message.ts'

/** One mapping of a task (`vma_entry` of mm-PID.img). */
export interface MemoryArea {
  readonly start: bigint
  readonly end: bigint
  /** Offset in the mapped file, in bytes. */
  readonly fileOffset: bigint
  /** The id in files.img, if a file is mapped. */
  readonly fileId: bigint
  readonly prot: bigint
  readonly flags: bigint
  readonly status: bigint
  readonly madvice: bigint
}

const MM_VMAS = 14
const VMA = {
  start: 1,
  end: 2,
  pgoff: 3,
  shmid: 4,
  prot: 5,
  flags: 6,
  status: 7,
  madv: 9,
  fdflags: 10,
} as const

/** Bits of `status`. All others mark areas that we never touch. */
const STATUS_REGULAR = 1n << 0n
const STATUS_HEAP = 1n << 5n
const STATUS_FILE_PRIVATE = 1n << 6n
const STATUS_FILE_SHARED = 1n << 7n
const STATUS_ANON_PRIVATE = 1n << 9n
const STATUS_GUARD_PAGES = 1n << 16n

const PROT_EXEC = 4n
const MAP_PRIVATE = 0x02n
const MAP_ANONYMOUS = 0x20n
const MAP_NORESERVE = 0x4000n
const MADV_WIPEONFORK = 18n
const O_RDONLY = 0n

export function readAreas(mm: Message): MemoryArea[] {
  return getAllBytes(mm, MM_VMAS).map((bytes) => {
    const vma = decodeMessage(bytes)
    return {
      start: getUint(vma, VMA.start),
      end: getUint(vma, VMA.end),
      fileOffset: getUint(vma, VMA.pgoff),
      fileId: getUint(vma, VMA.shmid),
      prot: getUint(vma, VMA.prot),
      flags: getUint(vma, VMA.flags),
      status: getUint(vma, VMA.status),
      madvice: findUint(vma, VMA.madv) ?? 0n,
    }
  })
}

/**
 * Whether this is private anonymous memory and nothing else. The test lists what is known to work. That excludes the
 * growing stack, locked, huge page and droppable mappings, the vdso and whatever a later kernel adds.
 */
export function isPlainAnonymous(area: MemoryArea): boolean {
  return (
    (area.status & ~STATUS_HEAP) === (STATUS_REGULAR | STATUS_ANON_PRIVATE) &&
    (area.flags & ~MAP_NORESERVE) === (MAP_PRIVATE | MAP_ANONYMOUS) &&
    (area.prot & PROT_EXEC) === 0n &&
    // The kernel accepts this advice only for anonymous memory.
    (area.madvice & (1n << MADV_WIPEONFORK)) === 0n
  )
}

/** Whether this is a plain private mapping of a file, such as the data of a library. */
export function isPlainPrivateFile(area: MemoryArea): boolean {
  return (
    (area.status & ~STATUS_HEAP) === (STATUS_REGULAR | STATUS_FILE_PRIVATE) &&
    (area.flags & ~MAP_NORESERVE) === MAP_PRIVATE &&
    (area.prot & PROT_EXEC) === 0n
  )
}

export function isPrivateFile(area: MemoryArea): boolean {
  return (area.status & STATUS_FILE_PRIVATE) !== 0n
}

export function isSharedFile(area: MemoryArea): boolean {
  return (area.status & STATUS_FILE_SHARED) !== 0n
}

/**
 * Whether this is a range of MADV_GUARD_INSTALL pages. CRIU lists them after the real mappings; each lies inside one.
 */
export function isGuardPages(area: MemoryArea): boolean {
  return (area.status & STATUS_GUARD_PAGES) !== 0n
}

/** A range of addresses and its place in a file. */
export interface FileRange {
  readonly start: bigint
  readonly end: bigint
  readonly fileId: bigint
  readonly fileOffset: bigint
}

/**
 * Turns the given ranges of `mm` (sorted, not overlapping) into private mappings of a file, which CRIU restores like a
 * library. An area that is only partly in a range is split. Neighbours that show consecutive bytes of one file become
 * one area.
 */
export function mapRangesToFile(mm: Message, ranges: readonly FileRange[]): void {
  const fields = mm.splice(0)
  let next = 0
  let last: Message | undefined
  for (const field of fields) {
    const vma = field.no === MM_VMAS && field.type === WireType.LengthDelimited && decodeMessage(field.value)
    // Guard pages are listed after all areas, and each is inside one.
    if (!vma || (getUint(vma, VMA.status) & STATUS_GUARD_PAGES) !== 0n) {
      mm.push(field)
      continue
    }
    while (next < ranges.length && (ranges[next]?.end ?? 0n) <= getUint(vma, VMA.start)) next++
    for (const piece of cutArea(vma, ranges, next)) {
      if (last !== undefined && continuesArea(last, piece)) {
        setUint(last, VMA.end, getUint(piece, VMA.end))
        mm.pop()
      } else last = piece
      mm.push({ no: MM_VMAS, type: WireType.LengthDelimited, value: encodeMessage(last) })
    }
  }
}

/** Returns the area as pieces that are completely inside or outside of the ranges, with their new place. */
function cutArea(vma: Message, ranges: readonly FileRange[], first: number): Message[] {
  const [areaStart, areaEnd] = [getUint(vma, VMA.start), getUint(vma, VMA.end)]
  const pieces: Message[] = []
  let start = areaStart
  for (let at = first; start < areaEnd; ) {
    const range = ranges[at]
    const isInside = range !== undefined && range.start <= start
    const border = isInside ? range.end : range?.start
    const end = border === undefined || border > areaEnd ? areaEnd : border
    const piece = start === areaStart && end === areaEnd ? vma : vma.map((field) => ({ ...field }))
    setUint(piece, VMA.start, start)
    setUint(piece, VMA.end, end)
    if (isInside)
      toFile(piece, { fileId: range.fileId, fileOffset: range.fileOffset + (start - range.start) })
    else if (start !== areaStart) setUint(piece, VMA.pgoff, getUint(vma, VMA.pgoff) + (start - areaStart))
    pieces.push(piece)
    if (isInside && range.end <= end) at++
    start = end
  }
  return pieces
}

function toFile(vma: Message, { fileId, fileOffset }: Pick<FileRange, 'fileId' | 'fileOffset'>): void {
  setUint(vma, VMA.pgoff, fileOffset)
  setUint(vma, VMA.shmid, fileId)
  setUint(vma, VMA.flags, getUint(vma, VMA.flags) & ~MAP_ANONYMOUS)
  setUint(vma, VMA.status, (getUint(vma, VMA.status) & ~STATUS_ANON_PRIVATE) | STATUS_FILE_PRIVATE)
  setUint(vma, VMA.fdflags, O_RDONLY)
}

/** Whether one mapping can show both: nothing differs but the address and the place in the file. */
function continuesArea(before: Message, area: Message): boolean {
  const bytes = getUint(before, VMA.end) - getUint(before, VMA.start)
  if ((getUint(area, VMA.status) & STATUS_FILE_PRIVATE) === 0n) return false
  if (getUint(before, VMA.end) !== getUint(area, VMA.start)) return false
  if (getUint(before, VMA.pgoff) + bytes !== getUint(area, VMA.pgoff)) return false
  const place: ReadonlySet<number> = new Set([VMA.start, VMA.end, VMA.pgoff])
  const rest = (vma: Message) => Buffer.from(encodeMessage(vma.filter(({ no }) => !place.has(no))))
  return rest(before).equals(rest(area))
}
