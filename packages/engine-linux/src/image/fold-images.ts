import { linkSync, mkdirSync, readdirSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { SnapshotPaths } from '../host/layout.ts'
import { readImage } from './image-file.ts'
import { taskPids } from './map-memory.ts'
import { findMapped, MEMORY_PATH, readTask } from './map-task.ts'
import { readAreas } from './memory-area.ts'
import { OpenFiles } from './open-files.ts'
import type { FoldedPart, PageMover } from './page-mover.ts'
import { cutRuns } from './pagemap.ts'

const PAGES = /^pages-\d+\.img$/
const FOLDED = '.folded'

export function isFolded(name: string): boolean {
  return name.endsWith(FOLDED)
}

/** The name of a pages image when it is not folded. */
export function unfoldedName(name: string): string {
  return name.slice(0, -FOLDED.length)
}

/**
 * Replaces the pages images of a snapshot that is not published yet by their folded forms, where those are smaller.
 * Pages differ from the memory files that they are mapped from in a few words each: see
 * docs/decisions/0118-folded-pages.md.
 */
export async function foldImages({ images, memory }: SnapshotPaths, worker: PageMover): Promise<void> {
  const files = new OpenFiles(await readImage(join(images, 'files.img')))
  for (const pid of taskPids(await readdir(images))) {
    const { mm, runs, pagesName } = await readTask(images, pid)
    if (runs.length === 0) continue
    const mapped = findMapped(readAreas(mm.records[0]?.message ?? []), files)
    const parts: FoldedPart[] = []
    for (const { run, area } of cutRuns(runs, mapped)) {
      const name = area && files.findPath(area.fileId)?.slice(MEMORY_PATH.length)
      const base =
        area === undefined || name === undefined
          ? undefined
          : { path: join(memory, name), offset: area.fileOffset + (run.start - area.start) }
      parts.push({ offset: run.offset, lengthBytes: run.end - run.start, base })
    }
    const pages = join(images, pagesName)
    const folded = pages + FOLDED
    await worker.fold(pages, folded, parts)
    const isSmaller = (await stat(folded)).size < (await stat(pages)).size
    await rm(isSmaller ? pages : folded)
  }
}

/**
 * Makes a directory with the images of a folded snapshot as CRIU reads them. Pre: its memory files are complete, and
 * the directory does not exist.
 */
export async function unfoldImages(paths: SnapshotPaths, into: string, worker: PageMover): Promise<void> {
  mkdirSync(into, { mode: 0o755 })
  await unfoldInto(paths, { names: readdirSync(paths.images), into, worker })
}

/** Likewise in an empty directory. `names` are those of all images. */
export async function unfoldInto(
  { images, memory }: SnapshotPaths,
  { names, into, worker }: { names: readonly string[]; into: string; worker: PageMover },
): Promise<void> {
  const folded = names.filter(isFolded).map((name) => ({
    folded: join(images, name),
    pages: join(into, unfoldedName(name)),
  }))
  if (!folded.every(({ pages }) => PAGES.test(pages.slice(into.length + 1))))
    throw new Error('a folded image is not of pages')
  const unfolding = worker.unfold(folded, memory)
  // A failure below comes first.
  unfolding.catch(() => {})
  // A restore launches its burrow before it comes back to this.
  await setImmediate()
  // Two dozen links take less time than as many hand-overs to other threads.
  for (const name of names) if (!isFolded(name)) linkSync(join(images, name), join(into, name))
  await unfolding
}
