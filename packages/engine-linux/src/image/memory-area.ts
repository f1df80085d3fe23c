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

export const PROTECTION = { read: 1n, write: 2n, exec: 4n } as const
const PROT_EXEC = PROTECTION.exec
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

/** Whether this is a plain private mapping of a file, such as the code of a library. */
export function isPlainPrivateMapping(area: MemoryArea): boolean {
  return (
    area.status === (STATUS_REGULAR | STATUS_FILE_PRIVATE) && (area.flags & ~MAP_NORESERVE) === MAP_PRIVATE
  )
}

/** Like `isPlainPrivateMapping`, without code. */
export function isPlainPrivateFile(area: MemoryArea): boolean {
  return isPlainPrivateMapping(area) && (area.prot & PROT_EXEC) === 0n
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

export interface FilePlace {
  readonly fileId: bigint
  readonly fileOffset: bigint
  /** Other than before, for a mapping that replaces several areas. */
  readonly end?: bigint
  readonly prot?: bigint
}

/** Removes areas of `mm`, by start address. Pre: other areas take their place. */
export function dropAreas(mm: Message, dropped: ReadonlySet<bigint>): void {
  const isDropped = (field: Message[number]) => {
    if (field.no !== MM_VMAS || typeof field.value === 'bigint') return false
    const vma = decodeMessage(field.value)
    const isGuard = (getUint(vma, VMA.status) & STATUS_GUARD_PAGES) !== 0n
    return !isGuard && dropped.has(getUint(vma, VMA.start))
  }
  const kept = mm.filter((field) => !isDropped(field))
  mm.length = 0
  for (const field of kept) mm.push(field)
}

/**
 * Turns the chosen areas of `mm`, by start address, into private mappings of a file. CRIU restores them like a library.
 */
export function mapAreasToFile(mm: Message, chosen: ReadonlyMap<bigint, FilePlace>): void {
  for (const field of mm) {
    if (field.no !== MM_VMAS || typeof field.value === 'bigint') continue
    const vma = decodeMessage(field.value)
    const target = chosen.get(getUint(vma, VMA.start))
    // Guard pages may start where their area does.
    if (target === undefined || (getUint(vma, VMA.status) & STATUS_GUARD_PAGES) !== 0n) continue
    if (target.end !== undefined) setUint(vma, VMA.end, target.end)
    if (target.prot !== undefined) setUint(vma, VMA.prot, target.prot)
    setUint(vma, VMA.pgoff, target.fileOffset)
    setUint(vma, VMA.shmid, target.fileId)
    setUint(vma, VMA.flags, getUint(vma, VMA.flags) & ~MAP_ANONYMOUS)
    setUint(vma, VMA.status, (getUint(vma, VMA.status) & ~STATUS_ANON_PRIVATE) | STATUS_FILE_PRIVATE)
    setUint(vma, VMA.fdflags, O_RDONLY)
    field.value = encodeMessage(vma)
  }
}
