import { chown, link, mkdir, readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotPaths } from '../host/layout.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { chooseExtents, type MappedExtent } from './choose-extents.ts'
import { readImage, writeImage } from './image-file.ts'
import { isLibraryCopy } from './library-name.ts'
import { MEMORY_FILE_PERMISSIONS, memoryFilesIn, taskPids } from './map-memory.ts'
import { MEMORY_PATH, readTask, splitRuns, type TaskChange, type TaskImages } from './map-task.ts'
import { isGuardPages, isPrivateFile, type MemoryArea, mapAreasToFile, readAreas } from './memory-area.ts'
import { layOutMemory, type MemoryLayout } from './memory-layout.ts'
import { getUint } from './message.ts'
import { OpenFiles } from './open-files.ts'
import type { PageMover, PageMoves } from './page-worker.ts'
import { presentBytes, withRuns } from './pagemap.ts'

const STAT_BLOCK_BYTES = 512

interface TaskExtent extends MappedExtent {
  readonly task: TaskImages
  readonly areas: readonly MemoryArea[]
  readonly fileOffset: bigint
  readonly fileId: bigint
}

export interface Consolidation {
  readonly files: OpenFiles
  readonly tasks: readonly TaskImages[]
  readonly chosen: readonly TaskExtent[]
}

/**
 * Finds memory of a snapshot that should be mapped instead of copied. Returns undefined when there is none, or too
 * little disk space.
 */
export async function planConsolidation(
  from: SnapshotPaths,
  { canClone }: { canClone: boolean },
): Promise<Consolidation | undefined> {
  const files = new OpenFiles(await readImage(join(from.images, 'files.img')))
  const tasks: TaskImages[] = []
  const extents: TaskExtent[] = []
  for (const pid of taskPids(await readdir(from.images))) {
    const task = await readTask(from.images, pid)
    tasks.push(task)
    extents.push(...(await findExtents(from, task, files)))
  }
  const chosen = chooseExtents(extents, { canClone })
  if (chosen.length === 0) return undefined
  const neededBytes = chosen.reduce(
    (bytes, { baseBytes, copiedBytes }) => bytes + baseBytes + copiedBytes,
    0n,
  )
  const { bavail, bsize } = await statfs(from.dir)
  // Leaves half of the free space to sandboxes.
  if (!canClone && neededBytes * 2n > BigInt(bavail) * BigInt(bsize)) return undefined
  return { files, tasks, chosen }
}

/**
 * Writes `images/` and `memory/` of a new version into `to`. Files that are not rewritten are hard links to those in
 * `from`. The guard's table stays: the same ranges map memory files, only different ones.
 */
export async function consolidate(
  { files, tasks, chosen }: Consolidation,
  {
    from,
    to,
    memoryId,
    worker,
  }: { from: SnapshotPaths; to: SnapshotPaths; memoryId: string; worker: PageMover },
): Promise<void> {
  await mkdir(to.images, { mode: 0o755 })
  await mkdir(to.memory, { mode: 0o755 })
  const byTask = new Map<TaskImages, TaskExtent[]>()
  for (const extent of chosen) {
    const own = byTask.get(extent.task) ?? []
    own.push(extent)
    byTask.set(extent.task, own)
  }
  const changes = tasks.flatMap((task) => {
    const own = byTask.get(task)
    if (own === undefined) return []
    const layout = layOutMemory(new Map(own.map((extent) => [extent, extent.copiedBytes])), {
      areasMax: own.length,
    })
    return [{ task, own, layout, name: `${memoryId}-${task.pid}`, split: splitRuns(task.runs, layout) }]
  })
  await worker.move(changes.map((change) => toMoves(change, { from, to })))
  for (const { name } of changes) await chown(join(to.memory, name), UID_BASE, UID_BASE)

  const rewritten = new Set(['files.img'])
  for (const { task, own, layout, name, split } of changes) {
    const path = MEMORY_PATH + name
    const fileId = files.add({ path, sizeBytes: layout.sizeBytes, permissions: MEMORY_FILE_PERMISSIONS })
    mapAreasToFile(task.mm.records[0]?.message ?? [], placeAreas(own, layout, fileId))
    await writeImage(join(to.images, `mm-${task.pid}.img`), task.mm)
    await writeImage(join(to.images, `pagemap-${task.pid}.img`), withRuns(task.pagemap, split.keptRuns))
    for (const image of [`mm-${task.pid}.img`, `pagemap-${task.pid}.img`, task.pagesName])
      rewritten.add(image)
  }
  files.drop(await unusedFiles(from, tasks, chosen))
  await writeImage(join(to.images, 'files.img'), files.image)
  for (const name of await readdir(from.images))
    if (!rewritten.has(name)) await link(join(from.images, name), join(to.images, name))
  const made = new Set(changes.map(({ name }) => name))
  const libraries = (await readdir(from.memory)).filter(isLibraryCopy)
  for (const name of new Set([...memoryFilesIn(files), ...libraries]))
    if (!made.has(name)) await link(join(from.memory, name), join(to.memory, name))
}

async function findExtents(from: SnapshotPaths, task: TaskImages, files: OpenFiles): Promise<TaskExtent[]> {
  const areas = readAreas(task.mm.records[0]?.message ?? [])
    .filter((area) => isPrivateFile(area) && !isGuardPages(area))
    .filter((area) => files.findPath(area.fileId)?.startsWith(MEMORY_PATH))
    .sort((one, other) => (one.start < other.start ? -1 : 1))
  const groups: MemoryArea[][] = []
  for (const area of areas) {
    const last = groups.at(-1)
    if (last !== undefined && continues(last.at(-1), area)) last.push(area)
    else groups.push([area])
  }
  const extents = groups.map((group) => {
    const [first] = group as [MemoryArea]
    const { fileOffset, fileId, start } = first
    const name = files.findPath(fileId)?.slice(MEMORY_PATH.length) ?? ''
    return { areas: group, start, end: group.at(-1)?.end ?? start, fileOffset, fileId, name }
  })
  const copied = presentBytes(task.runs, extents)
  return Promise.all(
    extents.map(async (extent) => {
      const { blocks, nlink } = await stat(join(from.memory, extent.name))
      const baseBytes = BigInt(Math.min(blocks * STAT_BLOCK_BYTES, Number(extent.end - extent.start)))
      return { ...extent, task, copiedBytes: copied.get(extent) ?? 0n, baseBytes, isShared: nlink > 1 }
    }),
  )
}

function continues(before: MemoryArea | undefined, area: MemoryArea): boolean {
  return (
    before?.end === area.start &&
    before.fileId === area.fileId &&
    before.fileOffset + (before.end - before.start) === area.fileOffset
  )
}

interface MemoryChange {
  readonly task: TaskImages
  readonly own: readonly TaskExtent[]
  readonly layout: MemoryLayout
  readonly name: string
  readonly split: Pick<TaskChange, 'keptRuns' | 'keep' | 'moves'>
}

function toMoves(
  { task, own, layout, name, split }: MemoryChange,
  { from, to }: { from: SnapshotPaths; to: SnapshotPaths },
): PageMoves {
  const byStart = new Map(own.map((extent) => [extent.start, extent]))
  const bases = layout.placed.map((place) => {
    const extent = byStart.get(place.start) as TaskExtent
    const lengthBytes = place.end - place.start
    return {
      path: join(from.memory, extent.name),
      from: extent.fileOffset,
      to: place.fileOffset,
      lengthBytes,
    }
  })
  return {
    sourcePath: join(from.images, task.pagesName),
    keptPath: join(to.images, task.pagesName),
    keep: split.keep,
    memory: { path: join(to.memory, name), sizeBytes: layout.sizeBytes, bases, moves: split.moves },
  }
}

/** The new place of each area, by its start. */
function placeAreas(own: readonly TaskExtent[], { placed }: MemoryLayout, fileId: bigint) {
  const places = new Map(placed.map(({ start, fileOffset }) => [start, fileOffset]))
  return new Map(
    own.flatMap((extent) => {
      const place = places.get(extent.start)
      if (place === undefined) return []
      return extent.areas.map(
        ({ start }) => [start, { fileId, fileOffset: place + start - extent.start }] as const,
      )
    }),
  )
}

/** Files whose memory was rewritten and that no task maps or has open any more. */
async function unusedFiles(
  from: SnapshotPaths,
  tasks: readonly TaskImages[],
  chosen: readonly TaskExtent[],
): Promise<Set<bigint>> {
  const unused = new Set(chosen.map(({ fileId }) => fileId))
  for (const { mm } of tasks)
    for (const area of readAreas(mm.records[0]?.message ?? []))
      if (isPrivateFile(area)) unused.delete(area.fileId)
  const FDINFO_ID = 1
  for (const name of (await readdir(from.images)).filter((each) => /^fdinfo-\d+\.img$/.test(each))) {
    const { records } = await readImage(join(from.images, name))
    for (const { message } of records) unused.delete(getUint(message, FDINFO_ID))
  }
  return unused
}
