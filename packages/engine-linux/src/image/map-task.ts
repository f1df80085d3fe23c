import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ChangedRegion, Rewrite } from './choose-rewrites.ts'
import type { ElfSymbol } from './elf-symbol.ts'
import { type AddressRange, fillGuardTable, findGuardTable, type GuardTable } from './guard-table.ts'
import { guardedRanges, joinOverlapping, touchesAny } from './guarded-ranges.ts'
import { type ImageFile, readImage } from './image-file.ts'
import {
  isGuardPages,
  isPlainAnonymous,
  isPlainPrivateFile,
  isPrivateFile,
  type MemoryArea,
  readAreas,
} from './memory-area.ts'
import { layOutMemory, type MemoryLayout } from './memory-layout.ts'
import {
  type BasePart,
  findBaseParts,
  findRegions,
  type MemoryRegion,
  type RangeOfRegion,
} from './memory-regions.ts'
import type { OpenFiles } from './open-files.ts'
import { cutRuns, PAGE_BYTES, type PageRun, presentBytes, readPagemap } from './pagemap.ts'

/** Where every burrow sees the memory files. */
export const MEMORY_PATH = '/.dormouse/memory/'

/**
 * Areas with few pages are copied, because one more mapping of a file costs as much. A process with hundreds of them,
 * such as stacks of threads, has them mapped all the same.
 */
const SMALL_MAX_BYTES = 1n << 20n

export interface TaskImages {
  readonly pid: number
  readonly mm: ImageFile
  readonly pagemap: ImageFile
  readonly pagesName: string
  readonly runs: readonly PageRun[]
  /** `runs` lacks pages of the image that need not be restored. */
  readonly isTrimmed: boolean
}

/** What can be done with the memory of one task. */
export interface TaskPlan {
  readonly task: TaskImages
  readonly areas: readonly MemoryArea[]
  readonly table: GuardTable
  readonly mappedBefore: readonly MemoryArea[]
  /** Areas to map for the first time, with the bytes that each has in the pages image. */
  readonly candidates: ReadonlyMap<MemoryArea, bigint>
  readonly regions: readonly TaskRegion[]
}

/** Memory that is mapped from earlier memory files, and how it has changed. */
export interface TaskRegion extends ChangedRegion {
  readonly region: MemoryRegion
}

export interface PlacedBase extends Omit<BasePart, 'start'> {
  /** Offset in the new memory file. */
  readonly to: bigint
}

/** The changes to the images of one task. */
export interface TaskChange {
  readonly layout: MemoryLayout
  /** Runs that stay in the pages image, with their new offsets; `keep` is where they come from. */
  readonly keptRuns: readonly PageRun[]
  readonly keep: readonly { offset: bigint; lengthBytes: bigint }[]
  readonly moves: readonly { from: bigint; to: bigint; lengthBytes: bigint }[]
  /** Unchanged parts of earlier memory files that go into the new one. */
  readonly bases: readonly PlacedBase[]
  /** Ids of the files that rewritten regions were mapped from; perhaps nothing maps them any more. */
  readonly formerFiles: ReadonlySet<bigint>
  readonly guard: { readonly table: GuardTable; readonly content: Buffer }
}

export async function readTask(imageDir: string, pid: number): Promise<TaskImages> {
  const mm = await readImage(join(imageDir, `mm-${pid}.img`))
  const pagemap = await readImage(join(imageDir, `pagemap-${pid}.img`))
  const { pagesId, runs } = readPagemap(pagemap)
  return { pid, mm, pagemap, pagesName: `pages-${pagesId}.img`, runs, isTrimmed: false }
}

/** Returns undefined when nothing of the task can be mapped. */
export async function planTask(
  task: TaskImages,
  host: { symbol: ElfSymbol; files: OpenFiles; imageDir: string; minPages: number },
): Promise<TaskPlan | undefined> {
  const areas = readAreas(task.mm.records[0]?.message ?? [])
  const pagesPath = join(host.imageDir, task.pagesName)
  const table = await findGuardTable({ ...host, areas, runs: task.runs, pagesPath })
  if (table === undefined) return undefined
  const mappedBefore = findMapped(areas, host.files)
  const before = new Set(mappedBefore)
  const own = areas.filter((area) => !before.has(area))
  // Guard pages can be in a file mapping only since Linux 6.15. The guard table is patched, so its pages stay in the
  // image.
  const apart = [table, ...areas.filter(isGuardPages)]
  const candidates = findCandidates(own, task.runs, { apart, minPages: host.minPages })
  const regions = findChanges(findRegions(mappedBefore, { apart }), task.runs, host.files)
  return { task, areas, table, mappedBefore, candidates, regions }
}

/** Pre: `rewrites` are ranges in the regions of this plan. Returns undefined when the images need no change. */
export function changeTask(plan: TaskPlan, rewrites: readonly Rewrite<TaskRegion>[]): TaskChange | undefined {
  const { task, table } = plan
  const ranges = rewrites
    .map((rewrite) => ({
      start: BigInt(rewrite.start),
      end: BigInt(rewrite.end),
      region: rewrite.region.region,
      changedBytes: BigInt(rewrite.changedBytes),
    }))
    .sort((one, other) => (one.start < other.start ? -1 : 1))
  const { layout, guarded } = fitIntoTable(plan, ranges)
  const content = fillGuardTable(table, guarded)
  if (layout.placed.length === 0 && content.equals(table.content) && !task.isTrimmed) return undefined
  return {
    layout,
    ...splitRuns(task.runs, layout),
    bases: placeBases(ranges, task.runs, layout),
    formerFiles: formerFilesOf(ranges),
    guard: { table, content },
  }
}

/** The areas that map memory files. */
export function findMapped(areas: readonly MemoryArea[], files: OpenFiles): MemoryArea[] {
  return areas.filter(
    (area) =>
      isPrivateFile(area) && !isGuardPages(area) && files.findPath(area.fileId)?.startsWith(MEMORY_PATH),
  )
}

/** Returns where the unchanged parts of the rewritten ranges go. Ranges that were not placed have none. */
export function placeBases(
  ranges: readonly RangeOfRegion[],
  runs: readonly PageRun[],
  { placed }: MemoryLayout,
): PlacedBase[] {
  const offsets = new Map(placed.map(({ start, fileOffset }) => [start, fileOffset]))
  const kept = ranges.filter(({ start }) => offsets.has(start))
  return findBaseParts(kept, runs).map(({ range, fileId, from, start, lengthBytes }) => {
    const to = (offsets.get(range.start) ?? 0n) + (start - range.start)
    return { fileId, from, to, lengthBytes }
  })
}

export function formerFilesOf(ranges: readonly RangeOfRegion[]): Set<bigint> {
  return new Set(ranges.flatMap(({ region }) => region.areas.map(({ fileId }) => fileId)))
}

function findChanges(
  regions: readonly MemoryRegion[],
  runs: readonly PageRun[],
  files: OpenFiles,
): TaskRegion[] {
  const changed = new Map<MemoryRegion, { start: number; end: number }[]>()
  for (const { run, area } of cutRuns(runs, regions)) {
    if (area === undefined) continue
    const own = changed.get(area) ?? []
    own.push({ start: Number(run.start), end: Number(run.end) })
    changed.set(area, own)
  }
  return regions.map((region) => ({
    region,
    start: Number(region.start),
    end: Number(region.end),
    pieces: region.areas.map(({ start, end, fileId }) => ({
      start: Number(start),
      end: Number(end),
      file: files.findPath(fileId)?.slice(MEMORY_PATH.length) ?? '',
    })),
    changed: changed.get(region) ?? [],
  }))
}

/** Returns the areas that may be mapped, with the bytes that each has in the pages image. */
function findCandidates(
  areas: readonly MemoryArea[],
  runs: readonly PageRun[],
  { apart, minPages }: { apart: readonly AddressRange[]; minPages: number },
): Map<MemoryArea, bigint> {
  const untouchable = joinOverlapping(apart)
  const plain = areas.filter(
    (area) => (isPlainAnonymous(area) || isPlainPrivateFile(area)) && !touchesAny(untouchable, area),
  )
  const present = [...presentBytes(runs, plain)]
  const minBytes = BigInt(minPages) * PAGE_BYTES
  const isSmall = ([area, bytes]: [MemoryArea, bigint]) => isPlainAnonymous(area) && bytes < minBytes
  const smallBytes = present.filter(isSmall).reduce((sum, [, bytes]) => sum + bytes, 0n)
  return new Map(
    present.filter(([area, bytes]) =>
      isPlainAnonymous(area)
        ? bytes >= minBytes || smallBytes > SMALL_MAX_BYTES
        : // The loader changed every page of this data, so nothing of its file is left, and it is a mapping already.
          bytes === area.end - area.start,
    ),
  )
}

interface RewrittenRange extends RangeOfRegion {
  readonly changedBytes: bigint
}

/** Every area that maps a memory file must be in the guard table. Areas that do not fit are copied. */
function fitIntoTable(
  { candidates, areas, mappedBefore, table, task }: TaskPlan,
  ranges: readonly RewrittenRange[],
) {
  const anonymous = areas.filter(isPlainAnonymous)
  const max = table.capacity
  const rewritten = new Map(ranges.map((range) => [range, range.changedBytes]))
  const isNew = new Set([...candidates.keys()].map(({ start }) => start))
  for (const areasMax of [max, max >> 1, max >> 2, max >> 4, 0]) {
    const largest = [...candidates].sort(([, one], [, other]) => Number(other - one)).slice(0, areasMax)
    const layout = layOutMemory(new Map<AddressRange, bigint>([...rewritten, ...largest]), {
      areasMax: rewritten.size + areasMax,
    })
    const added = layout.placed.filter(({ start }) => isNew.has(start))
    const guarded = guardedRanges([...mappedBefore, ...added], { anonymous, max })
    if (guarded !== undefined) return { layout, guarded }
  }
  throw new DormouseError(
    'snapshot_refused',
    `Process ${task.pid} has its memory in more than ${max} separate pieces of memory files.`,
  )
}

/** Splits the pages image into the part for the memory file and the part that stays. */
export function splitRuns(
  runs: readonly PageRun[],
  { placed }: MemoryLayout,
): Pick<TaskChange, 'keptRuns' | 'keep' | 'moves'> {
  const keptRuns: PageRun[] = []
  const keep: { offset: bigint; lengthBytes: bigint }[] = []
  const moves: { from: bigint; to: bigint; lengthBytes: bigint }[] = []
  let keptBytes = 0n
  for (const { run, area } of cutRuns(runs, placed)) {
    const lengthBytes = run.end - run.start
    if (area !== undefined) {
      moves.push({ from: run.offset, to: area.fileOffset + run.start - area.start, lengthBytes })
      continue
    }
    keptRuns.push({ ...run, offset: keptBytes })
    keptBytes += lengthBytes
    const last = keep.at(-1)
    if (last !== undefined && last.offset + last.lengthBytes === run.offset) last.lengthBytes += lengthBytes
    else keep.push({ offset: run.offset, lengthBytes })
  }
  return { keptRuns, keep, moves }
}
