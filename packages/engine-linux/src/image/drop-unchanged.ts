import { join } from 'node:path'
import { findMapped, MEMORY_PATH, type TaskImages } from './map-task.ts'
import { readAreas } from './memory-area.ts'
import type { OpenFiles } from './open-files.ts'
import type { FileRange, PageComparison, PageMover } from './page-mover.ts'
import { cutRuns, type PageRun } from './pagemap.ts'

export interface DropUnchanged {
  readonly rawDir: string
  /** Has the memory files that the dumped processes map. */
  readonly basesDir: string
  readonly files: OpenFiles
  readonly worker: PageMover
}

/**
 * Returns the task without the pages that were written but are equal to the memory file that they are mapped from. Most
 * writes of a Python program count references and count back. A restore need not copy such pages: it maps them.
 */
export async function dropUnchanged(
  task: TaskImages,
  { rawDir, basesDir, files, worker }: DropUnchanged,
): Promise<TaskImages> {
  const mapped = findMapped(readAreas(task.mm.records[0]?.message ?? []), files)
  const comparisons: PageComparison[] = []
  for (const { run, area } of cutRuns(task.runs, mapped)) {
    if (area === undefined) continue
    const path = join(basesDir, files.findPath(area.fileId)?.slice(MEMORY_PATH.length) ?? '')
    const base = { path, offset: area.fileOffset + (run.start - area.start) }
    comparisons.push({ offset: run.offset, lengthBytes: run.end - run.start, base })
  }
  const unchanged = await worker.findUnchanged(join(rawDir, task.pagesName), comparisons)
  if (unchanged.length === 0) return task
  return { ...task, runs: [...withoutRanges(task.runs, unchanged)], isTrimmed: true }
}

/** Pre: both are sorted by their offset in the pages image, and ranges do not overlap. */
function* withoutRanges(runs: readonly PageRun[], ranges: readonly FileRange[]): Generator<PageRun> {
  let next = 0
  for (const run of runs) {
    const runEnd = run.offset + (run.end - run.start)
    let at = run.offset
    const cut = (end: bigint): PageRun => {
      const start = run.start + (at - run.offset)
      return { ...run, start, end: start + (end - at), offset: at }
    }
    for (; (ranges[next]?.offset ?? runEnd) < runEnd; next++) {
      const { offset, lengthBytes } = ranges[next] as FileRange
      if (offset > at) yield cut(offset)
      at = offset + lengthBytes
    }
    if (at < runEnd) yield cut(runEnd)
  }
}
