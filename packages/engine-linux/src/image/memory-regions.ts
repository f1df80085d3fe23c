import type { AddressRange } from './guard-table.ts'
import { joinOverlapping, touchesAny } from './guarded-ranges.ts'
import { isPlainPrivateFile, type MemoryArea } from './memory-area.ts'
import { cutRuns, type PageRun } from './pagemap.ts'

/**
 * Areas that are mapped from memory files and touch each other: one mapping to the program, perhaps several to the
 * kernel. Any part of it may move to another memory file.
 */
export interface MemoryRegion extends AddressRange {
  /** Sorted by address. */
  readonly areas: readonly MemoryArea[]
}

export interface RangeOfRegion extends AddressRange {
  readonly region: MemoryRegion
}

/** A part of a memory file that a rewritten range keeps, by the file's id in files.img. */
export interface BasePart {
  readonly fileId: bigint
  readonly from: bigint
  readonly start: bigint
  readonly lengthBytes: bigint
}

/** Pre: all `mapped` areas map memory files. Areas that touch one of `apart` are left out. */
export function findRegions(
  mapped: readonly MemoryArea[],
  { apart }: { apart: readonly AddressRange[] },
): MemoryRegion[] {
  const untouchable = joinOverlapping(apart)
  const groups: MemoryArea[][] = []
  const sorted = mapped
    .filter((area) => isPlainPrivateFile(area) && !touchesAny(untouchable, area))
    .sort((one, other) => (one.start < other.start ? -1 : 1))
  for (const area of sorted) {
    const last = groups.at(-1)
    const before = last?.at(-1)
    if (last !== undefined && before !== undefined && continues(before, area)) last.push(area)
    else groups.push([area])
  }
  return groups.map((areas) => {
    const [{ start }] = areas as [MemoryArea]
    return { areas, start, end: areas.at(-1)?.end ?? start }
  })
}

/** Returns which parts of memory files the ranges show where no run replaces them. Ranges are sorted. */
export function findBaseParts<Range extends RangeOfRegion>(
  ranges: readonly Range[],
  runs: readonly PageRun[],
): (BasePart & { readonly range: Range })[] {
  const parts: (BasePart & { range: Range })[] = []
  const changed = new Map<Range, AddressRange[]>(ranges.map((range) => [range, []]))
  for (const { run, area } of cutRuns(runs, ranges)) if (area !== undefined) changed.get(area)?.push(run)
  for (const range of ranges) {
    const { areas } = range.region
    let [start, at] = [range.start, 0]
    for (const run of [...(changed.get(range) ?? []), { start: range.end, end: range.end }]) {
      while (start < run.start) {
        while ((areas[at]?.end ?? run.start) <= start) at++
        const area = areas[at]
        if (area === undefined) break
        const isLast = area.end >= run.start
        const end = isLast ? run.start : area.end
        const from = area.fileOffset + (start - area.start)
        parts.push({ range, fileId: area.fileId, from, start, lengthBytes: end - start })
        start = end
      }
      start = run.end
    }
  }
  return parts
}

function continues(before: MemoryArea, area: MemoryArea): boolean {
  return (
    before.end === area.start &&
    before.prot === area.prot &&
    before.flags === area.flags &&
    before.status === area.status &&
    before.madvice === area.madvice
  )
}
