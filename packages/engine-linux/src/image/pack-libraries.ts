import { lstatSync } from 'node:fs'
import { chown, link, mkdir, readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { SnapshotPaths } from '../host/layout.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { fillGuardTable, findGuardTable, readGuardSymbol, writeGuardTable } from './guard-table.ts'
import { guardedRanges } from './guarded-ranges.ts'
import { readImage, writeImage } from './image-file.ts'
import { MEMORY_FILE_PERMISSIONS, taskPids } from './map-memory.ts'
import { findMapped, MEMORY_PATH, readTask, splitRuns, type TaskImages } from './map-task.ts'
import { isPlainAnonymous, mapRangesToFile, readAreas, setProtections } from './memory-area.ts'
import { findUnused, memoryFilesIn } from './memory-files.ts'
import { findBaseParts } from './memory-regions.ts'
import { OpenFiles } from './open-files.ts'
import type { PageBase, PageMover } from './page-mover.ts'
import { withRuns } from './pagemap.ts'
import { planPack, type TaskPack } from './plan-pack.ts'

/** Our own files are not in the template, and the next dump finds the guard by its path. */
const OWN_FILES = '/.dormouse/'
/** The host recognizes the C library by its path (process/hold-sleep.ts), and so do some programs. */
const C_LIBRARY = /^(?:libc[.-]|ld-)/

export interface PackLibraries {
  /** A snapshot whose processes run nothing but their template. */
  readonly from: SnapshotPaths
  /** An existing directory. Gets `images/` and `memory/`. */
  readonly to: SnapshotPaths
  /** Names the new memory files: `<memoryId>-<pid>`. */
  readonly memoryId: string
  /** The template's files on the host. */
  readonly rootfs: string
  /** Entries of the root directory in which the snapshot's own layers have files. Nothing below them is packed. */
  readonly changed: readonly string[]
  /** The guard library of burrows, at its path on the host. */
  readonly guard: { readonly hostPath: string }
}

/**
 * Makes a version of a snapshot in which the libraries of its processes are in its memory files. Restores open a file
 * and make a mapping for each segment of a library, and copy each page that the loader changed; now they map one file,
 * and all sandboxes share those pages. Libraries are copied from the template, never from files of a sandbox.
 */
export async function packLibraries(pack: PackLibraries & { worker: PageMover }): Promise<void> {
  const { from, to } = pack
  await mkdir(to.images, { mode: 0o755 })
  await mkdir(to.memory, { mode: 0o755 })
  const files = new OpenFiles(await readImage(join(from.images, 'files.img')))
  const libraries = findLibraries(files, pack)
  const names = await readdir(from.images)
  const tasks: TaskImages[] = []
  for (const pid of taskPids(names)) tasks.push(await readTask(from.images, pid))
  const rewritten = new Set(['files.img'])
  const made = new Set<string>()
  for (const task of tasks) {
    const name = await packTask(pack, { task, files, libraries })
    if (name === undefined) continue
    made.add(name)
    for (const image of [`mm-${task.pid}.img`, `pagemap-${task.pid}.img`, task.pagesName])
      rewritten.add(image)
  }
  const memory = files.all.filter(({ path }) => path.startsWith(MEMORY_PATH)).map(({ id }) => id)
  const mms = tasks.map(({ mm }) => mm)
  files.drop(await findUnused(new Set([...libraries.keys(), ...memory]), { imageDir: from.images, mms }))
  await writeImage(join(to.images, 'files.img'), files.image)
  for (const name of names.filter((each) => !rewritten.has(each)))
    await link(join(from.images, name), join(to.images, name))
  for (const name of memoryFilesIn(files))
    if (!made.has(name)) await link(join(from.memory, name), join(to.memory, name))
}

/** Paths below the template's root of files that tasks map, by id. */
function findLibraries(files: OpenFiles, { rootfs, changed }: PackLibraries): Map<bigint, string> {
  const libraries = new Map<bigint, string>()
  for (const { id, path, isWritten, sizeBytes } of files.all) {
    const [, top = ''] = path.split('/')
    if (isWritten || path.startsWith(OWN_FILES) || changed.includes(top)) continue
    if (C_LIBRARY.test(basename(path))) continue
    const found = lstatSync(join(rootfs, path), { throwIfNoEntry: false })
    // Not the same file: something is mounted over it, or it is deleted.
    if (!found?.isFile() || BigInt(found.size) !== sizeBytes) continue
    libraries.set(id, path.slice(1))
  }
  return libraries
}

interface PackTask {
  readonly task: TaskImages
  readonly files: OpenFiles
  readonly libraries: ReadonlyMap<bigint, string>
}

/** Returns the name of the task's new memory file; undefined when the task has no guard, so it stays as it is. */
async function packTask(
  pack: PackLibraries & { worker: PageMover },
  { task, files, libraries }: PackTask,
): Promise<string | undefined> {
  const { from, to, memoryId, rootfs, worker } = pack
  const mm = task.mm.records[0]?.message ?? []
  const areas = readAreas(mm)
  const pagesPath = join(from.images, task.pagesName)
  const symbol = await readGuardSymbol(pack.guard.hostPath)
  const table = await findGuardTable({ symbol, areas, files, runs: task.runs, pagesPath })
  if (table === undefined) return undefined
  const isMemory = (id: bigint) => files.findPath(id)?.startsWith(MEMORY_PATH) === true
  const isLibrary = (id: bigint) => libraries.has(id)
  const plan = planPack(areas, { runs: task.runs, apart: [table], isLibrary, isMemory })
  const split = splitRuns(task.runs, plan.layout)
  const name = `${memoryId}-${task.pid}`
  const findMemory = (id: bigint) =>
    isMemory(id) ? join(from.memory, files.findPath(id)?.slice(MEMORY_PATH.length) ?? '') : undefined
  const bases = findBases(plan, { task, libraries, rootfs, findMemory })
  const { sizeBytes } = plan.layout
  await worker.move([
    {
      sourcePath: pagesPath,
      keptPath: join(to.images, task.pagesName),
      keep: split.keep,
      memory: { path: join(to.memory, name), sizeBytes, moves: split.moves, bases },
    },
  ])
  await chown(join(to.memory, name), UID_BASE, UID_BASE)

  const fileId = files.add({ path: MEMORY_PATH + name, sizeBytes, permissions: MEMORY_FILE_PERMISSIONS })
  setProtections(mm, plan.protections)
  mapRangesToFile(
    mm,
    plan.layout.placed.map((place) => ({ ...place, fileId })),
  )
  await writeImage(join(to.images, `mm-${task.pid}.img`), task.mm)
  await writeImage(join(to.images, `pagemap-${task.pid}.img`), withRuns(task.pagemap, split.keptRuns))
  const mapped = findMapped(readAreas(mm), files)
  const anonymous = areas.filter(isPlainAnonymous)
  const ranges = guardedRanges(mapped, { anonymous, max: table.capacity })
  if (ranges === undefined) throw new Error(`the memory of task ${task.pid} is in too many pieces`)
  const content = fillGuardTable(table, ranges)
  await writeGuardTable(join(to.images, task.pagesName), split.keptRuns, { table, content })
  return name
}

/** Where the bytes come from that the dump does not have: libraries, and memory files that were mapped before. */
function findBases(
  { groups, layout }: TaskPack,
  {
    task,
    libraries,
    rootfs,
    findMemory,
  }: Pick<PackTask, 'task' | 'libraries'> & {
    rootfs: string
    findMemory: (fileId: bigint) => string | undefined
  },
): PageBase[] {
  const places = new Map(layout.placed.map(({ start, fileOffset }) => [start, fileOffset]))
  const ranges = groups.map((region) => ({ start: region.start, end: region.end, region }))
  return findBaseParts(ranges, task.runs).flatMap(
    ({ range, fileId, from, start, lengthBytes }): PageBase[] => {
      const to = (places.get(range.start) ?? 0n) + start - range.start
      const memory = findMemory(fileId)
      if (memory !== undefined) return [{ from, to, lengthBytes, path: memory }]
      const library = libraries.get(fileId)
      // Otherwise anonymous memory that was never written.
      return library === undefined ? [] : [{ from, to, lengthBytes, path: library, beneath: rootfs }]
    },
  )
}
