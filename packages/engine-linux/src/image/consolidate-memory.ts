import { chown, link, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotPaths } from '../host/layout.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { readImage, writeImage } from './image-file.ts'
import { isLibraryCopy } from './library-name.ts'
import { MEMORY_FILE_PERMISSIONS, taskPids } from './map-memory.ts'
import {
  findMapped,
  formerFilesOf,
  MEMORY_PATH,
  placeBases,
  readTask,
  splitRuns,
  type TaskImages,
} from './map-task.ts'
import { isGuardPages, type MemoryArea, mapRangesToFile, readAreas } from './memory-area.ts'
import { findUnused, locateBases, memoryFilesIn } from './memory-files.ts'
import { layOutMemory } from './memory-layout.ts'
import { findRegions, type MemoryRegion, type RangeOfRegion } from './memory-regions.ts'
import { OpenFiles } from './open-files.ts'
import type { FileRange, PageMover } from './page-mover.ts'
import { withRuns } from './pagemap.ts'

/** The ranges of a memory file that processes map, which may overlap. */
export interface MappedFile {
  readonly name: string
  readonly ranges: readonly FileRange[]
}

/** Returns which memory files a snapshot maps, and where. */
export async function findMappedRanges({ images }: SnapshotPaths): Promise<MappedFile[]> {
  const files = await readFiles(images)
  const found = new Map<string, Map<string, FileRange>>()
  for (const pid of taskPids(await readdir(images))) {
    const mm = await readImage(join(images, `mm-${pid}.img`))
    for (const { fileId, fileOffset, start, end } of findMapped(areasOf(mm), files)) {
      const name = nameOf(files, fileId)
      const ranges = found.get(name) ?? new Map<string, FileRange>()
      // Processes that were forked map the same ranges.
      ranges.set(`${fileOffset} ${end - start}`, { offset: fileOffset, lengthBytes: end - start })
      found.set(name, ranges)
    }
  }
  return [...found].map(([name, ranges]) => ({ name, ranges: [...ranges.values()] }))
}

export interface Consolidate {
  readonly from: SnapshotPaths
  readonly to: SnapshotPaths
  /** Everything that is mapped from these memory files goes into a new one. */
  readonly names: readonly string[]
  /** Names the new memory files: `<memoryId>-<pid>`. */
  readonly memoryId: string
}

interface TaskRewrite {
  readonly task: TaskImages
  readonly ranges: readonly RangeOfRegion[]
}

/**
 * Writes `images/` and `memory/` of a new version into `to`. Files that are not rewritten are hard links to those in
 * `from`. The guard's table stays: the same ranges map memory files, only different ones.
 */
export async function consolidate(
  { from, to, names, memoryId }: Consolidate,
  worker: PageMover,
): Promise<void> {
  const files = await readFiles(from.images)
  const tasks: TaskRewrite[] = []
  for (const pid of taskPids(await readdir(from.images))) {
    const task = await readTask(from.images, pid)
    tasks.push({ task, ranges: findRanges(task, files, new Set(names)) })
  }
  await mkdir(to.images, { mode: 0o755 })
  await mkdir(to.memory, { mode: 0o755 })
  const changed = tasks.filter(({ ranges }) => ranges.length > 0)
  const rewritten = new Set(['files.img'])
  const made = new Set<string>()
  for (const rewrite of changed) {
    const name = `${memoryId}-${rewrite.task.pid}`
    made.add(name)
    for (const image of await rewriteTask(rewrite, { from, to, name, files, worker })) rewritten.add(image)
  }
  const former = new Set(changed.flatMap(({ ranges }) => [...formerFilesOf(ranges)]))
  const mms = tasks.map(({ task }) => task.mm)
  files.drop(await findUnused(former, { imageDir: from.images, mms }))
  await writeImage(join(to.images, 'files.img'), files.image)
  for (const name of await readdir(from.images))
    if (!rewritten.has(name)) await link(join(from.images, name), join(to.images, name))
  const libraries = (await readdir(from.memory)).filter(isLibraryCopy)
  for (const name of new Set([...memoryFilesIn(files), ...libraries]))
    if (!made.has(name)) await link(join(from.memory, name), join(to.memory, name))
}

/** The areas that map one of the files. Those that touch become one range. */
function findRanges(task: TaskImages, files: OpenFiles, names: ReadonlySet<string>): RangeOfRegion[] {
  const areas = areasOf(task.mm)
  const mapped = findMapped(areas, files).filter(({ fileId }) => names.has(nameOf(files, fileId)))
  return findRegions(mapped, { apart: areas.filter(isGuardPages) }).map(toRange)
}

function toRange(region: MemoryRegion): RangeOfRegion {
  return { start: region.start, end: region.end, region }
}

/** Returns the names of the images that it wrote. */
async function rewriteTask(
  { task, ranges }: TaskRewrite,
  {
    from,
    to,
    name,
    files,
    worker,
  }: { from: SnapshotPaths; to: SnapshotPaths; name: string; files: OpenFiles; worker: PageMover },
): Promise<string[]> {
  const { pid, mm, pagemap, runs, pagesName } = task
  const layout = layOutMemory(new Map(ranges.map((range) => [range, range.end - range.start])), {
    areasMax: ranges.length,
  })
  const { keptRuns, keep, moves } = splitRuns(runs, layout)
  const bases = locateBases(placeBases(ranges, runs, layout), from.memory, files)
  const memory = { path: join(to.memory, name), sizeBytes: layout.sizeBytes, bases, moves }
  const [sourcePath, keptPath] = [join(from.images, pagesName), join(to.images, pagesName)]
  await worker.move([{ sourcePath, keptPath, keep, memory }])
  await chown(memory.path, UID_BASE, UID_BASE)
  const { placed, sizeBytes } = layout
  const path = MEMORY_PATH + name
  const fileId = files.add({ path, sizeBytes, permissions: MEMORY_FILE_PERMISSIONS })
  const places = placed.map((place) => ({ ...place, fileId }))
  mapRangesToFile(mm.records[0]?.message ?? [], places)
  await writeImage(join(to.images, `mm-${pid}.img`), mm)
  await writeImage(join(to.images, `pagemap-${pid}.img`), withRuns(pagemap, keptRuns))
  return [`mm-${pid}.img`, `pagemap-${pid}.img`, pagesName]
}

async function readFiles(imagesDir: string): Promise<OpenFiles> {
  return new OpenFiles(await readImage(join(imagesDir, 'files.img')))
}

function areasOf(mm: Awaited<ReturnType<typeof readImage>>): MemoryArea[] {
  return readAreas(mm.records[0]?.message ?? [])
}

function nameOf(files: OpenFiles, fileId: bigint): string {
  return files.findPath(fileId)?.slice(MEMORY_PATH.length) ?? ''
}
