import { DormouseError } from '@dormouse/contracts'
import { type ImageFile, plainRecord } from './image-file.ts'
import { findUint, getUint, type Message, setUint } from './message.ts'

export const PAGE_BYTES = 4096n

/** Consecutive pages of a task that are in its pages image, which stores runs one after the other. */
export interface PageRun {
  readonly start: bigint
  readonly end: bigint
  /** Offset of the first page in the pages image. */
  readonly offset: bigint
  readonly message: Message
}

export interface Pagemap {
  /** The N of pages-N.img. */
  readonly pagesId: bigint
  readonly runs: PageRun[]
}

const HEAD_PAGES_ID = 1
// CRIU 4.2 stores the count in `pages` and writes 0 to the 32-bit field. Older versions have only the latter.
const ENTRY = { address: 1, compatPages: 2, inParent: 3, flags: 4, pages: 5 } as const
const FLAG_PARENT = 1n
const FLAG_PRESENT = 4n

export function readPagemap({ records: [head, ...entries] }: ImageFile): Pagemap {
  if (head === undefined) throw new Error('the pagemap has no head')
  let offset = 0n
  const runs = entries.map(({ message }) => {
    const flags = findUint(message, ENTRY.flags) ?? 0n
    if (findUint(message, ENTRY.inParent) === 1n || (flags & (FLAG_PARENT | FLAG_PRESENT)) !== FLAG_PRESENT) {
      throw new DormouseError(
        'host_unsupported',
        'The dump is incremental or lazy: not all pages are in its own pages image.',
      )
    }
    const start = getUint(message, ENTRY.address)
    const pages = findUint(message, ENTRY.pages) ?? getUint(message, ENTRY.compatPages)
    const run = { start, end: start + pages * PAGE_BYTES, offset, message }
    offset += pages * PAGE_BYTES
    return run
  })
  return { pagesId: getUint(head.message, HEAD_PAGES_ID), runs }
}

/** Returns the image with other runs. Each keeps the fields of the run that it was cut from. */
export function withRuns(image: ImageFile, runs: readonly PageRun[]): ImageFile {
  const [head] = image.records
  if (head === undefined) throw new Error('the pagemap has no head')
  return { head: image.head, records: [head, ...runs.map((run) => plainRecord(toEntry(run)))] }
}

function toEntry({ start, end, message }: PageRun): Message {
  const entry = message.map((field) => ({ ...field }))
  const pages = (end - start) / PAGE_BYTES
  setUint(entry, ENTRY.address, start)
  const is64Bit = findUint(message, ENTRY.pages) !== undefined
  setUint(entry, is64Bit ? ENTRY.pages : ENTRY.compatPages, pages)
  return entry
}

/**
 * Cuts the runs at the borders of `areas` (sorted, not overlapping) and yields each piece with the area that contains
 * it. Adjacent mappings share a run when their pages are consecutive.
 */
export function* cutRuns<Area extends { start: bigint; end: bigint }>(
  runs: readonly PageRun[],
  areas: readonly Area[],
): Generator<{ run: PageRun; area: Area | undefined }> {
  let next = 0
  for (const run of runs) {
    let start = run.start
    while (start < run.end) {
      while (next < areas.length && (areas[next]?.end ?? 0n) <= start) next++
      const area = areas[next]
      const isInside = area !== undefined && area.start <= start
      const border = isInside ? area.end : area?.start
      const end = border === undefined || border > run.end ? run.end : border
      const piece = { start, end, offset: run.offset + (start - run.start), message: run.message }
      yield { run: piece, area: isInside ? area : undefined }
      start = end
    }
  }
}

/** Returns how many bytes of each area are in the pages image. */
export function presentBytes<Area extends { start: bigint; end: bigint }>(
  runs: readonly PageRun[],
  areas: readonly Area[],
): Map<Area, bigint> {
  const present = new Map<Area, bigint>()
  for (const { run, area } of cutRuns(runs, areas)) {
    if (area !== undefined) present.set(area, (present.get(area) ?? 0n) + run.end - run.start)
  }
  return present
}
