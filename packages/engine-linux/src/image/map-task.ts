import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ElfSymbol } from './elf-symbol.ts'
import { fillGuardTable, findGuardTable, type GuardTable } from './guard-table.ts'
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
import type { OpenFiles } from './open-files.ts'
import { cutRuns, PAGE_BYTES, type PageRun, presentBytes, readPagemap } from './pagemap.ts'

/** Where every burrow sees the memory files. */
export const MEMORY_PATH = '/.dormouse/memory/'

export interface TaskImages {
  readonly pid: number
  readonly mm: ImageFile
  readonly pagemap: ImageFile
  readonly pagesName: string
  readonly runs: readonly PageRun[]
}

/** The changes to the images of one task. */
export interface TaskChange {
  readonly layout: MemoryLayout
  /** Runs that stay in the pages image, with their new offsets; `keep` is where they come from. */
  readonly keptRuns: readonly PageRun[]
  readonly keep: readonly { offset: bigint; lengthBytes: bigint }[]
  readonly moves: readonly { from: bigint; to: bigint; lengthBytes: bigint }[]
  readonly guard: { readonly table: GuardTable; readonly content: Buffer }
}

export async function readTask(imageDir: string, pid: number): Promise<TaskImages> {
  const mm = await readImage(join(imageDir, `mm-${pid}.img`))
  const pagemap = await readImage(join(imageDir, `pagemap-${pid}.img`))
  const { pagesId, runs } = readPagemap(pagemap)
  return { pid, mm, pagemap, pagesName: `pages-${pagesId}.img`, runs }
}

/** Returns undefined when the images of the task need no change. */
export async function planTask(
  task: TaskImages,
  host: { symbol: ElfSymbol; files: OpenFiles; imageDir: string; minPages: number },
): Promise<TaskChange | undefined> {
  const { files } = host
  const areas = readAreas(task.mm.records[0]?.message ?? [])
  const pagesPath = join(host.imageDir, task.pagesName)
  const table = await findGuardTable({ symbol: host.symbol, areas, files, runs: task.runs, pagesPath })
  if (table === undefined) return undefined

  const mappedBefore = areas.filter(
    (area) => isPrivateFile(area) && files.findPath(area.fileId)?.startsWith(MEMORY_PATH),
  )
  const before = new Set(mappedBefore)
  const own = areas.filter((area) => !before.has(area))
  const candidates = findCandidates(own, task.runs, { table, minPages: host.minPages })
  const { layout, ranges } = fitIntoTable(candidates, { areas, mappedBefore, table, pid: task.pid })
  const content = fillGuardTable(table, ranges)
  if (layout.placed.length === 0 && content.equals(table.content)) return undefined
  return { layout, ...splitRuns(task.runs, layout), guard: { table, content } }
}

/** Returns the areas that may be mapped, with the bytes that each has in the pages image. */
function findCandidates(
  areas: readonly MemoryArea[],
  runs: readonly PageRun[],
  { table, minPages }: { table: GuardTable; minPages: number },
): Map<MemoryArea, bigint> {
  // Guard pages can be in a file mapping only since Linux 6.15. The guard table is patched, so its pages stay in the
  // image.
  const apart = joinOverlapping([table, ...areas.filter(isGuardPages)])
  const plain = areas.filter(
    (area) => (isPlainAnonymous(area) || isPlainPrivateFile(area)) && !touchesAny(apart, area),
  )
  const isWorthIt = (area: MemoryArea, bytes: bigint) =>
    isPlainAnonymous(area)
      ? bytes >= BigInt(minPages) * PAGE_BYTES
      : // The loader changed every page of this data, so nothing of its file is left, and it is a mapping already.
        bytes === area.end - area.start
  return new Map([...presentBytes(runs, plain)].filter(([area, bytes]) => isWorthIt(area, bytes)))
}

/** Every area that maps a memory file must be in the guard table. Areas that do not fit are copied. */
function fitIntoTable(
  candidates: ReadonlyMap<MemoryArea, bigint>,
  task: { areas: readonly MemoryArea[]; mappedBefore: readonly MemoryArea[]; table: GuardTable; pid: number },
) {
  const anonymous = task.areas.filter(isPlainAnonymous)
  const max = task.table.capacity
  for (const areasMax of [max, 0]) {
    const layout = layOutMemory(candidates, { areasMax })
    const ranges = guardedRanges([...task.mappedBefore, ...layout.placed], { anonymous, max })
    if (ranges !== undefined) return { layout, ranges }
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
