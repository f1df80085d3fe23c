import { constants, copyFile, link, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { allOf } from '@dormouse/async'
import { readGuardSymbol, writeGuardTable } from './guard-table.ts'
import { readImage, writeImage } from './image-file.ts'
import { adoptUserNamespace, readInventory } from './inventory.ts'
import { MEMORY_PATH, planTask, readTask, type TaskChange, type TaskImages } from './map-task.ts'
import { mapAreasToFile } from './memory-area.ts'
import { OpenFiles } from './open-files.ts'
import type { PageMover, PageMoves, SealedMemory } from './page-worker.ts'
import { withRuns } from './pagemap.ts'

/** VMAs with fewer present pages are copied: one more mapping costs about as much as copying 16 pages. */
const MIN_PAGES = 16
export const MEMORY_FILE_PERMISSIONS = 0o400

export interface MapMemory {
  /** A complete dump, as CRIU wrote it. mapMemory does not change it. */
  readonly rawDir: string
  /** Exists and is empty. On the same file system as `rawDir`, unchanged images become hard links. */
  readonly outDir: string
  readonly memoryDir: string
  /** Names the memory files of this dump: `<memoryId>-<pid>`. */
  readonly memoryId: string
  /** The guard library of burrows, at its path on the host. */
  readonly guard: { readonly hostPath: string }
  readonly worker: PageMover
  /** files.img of the dump, if the caller has already read, and perhaps changed, it. */
  readonly files?: OpenFiles
  readonly minPages?: number
}

export interface MappedImage {
  readonly tasks: readonly MappedTask[]
  readonly memoryFiles: readonly SealedMemory[]
  /** Memory files of earlier dumps that this one also maps. */
  readonly referencedMemoryFiles: readonly string[]
  readonly mappedBytes: number
  readonly copiedBytes: number
}

export interface MappedTask {
  readonly pid: number
  /** Bytes of pages that this call moved to the memory file. */
  readonly mappedBytes: number
  /** Bytes of pages that every restore copies. */
  readonly copiedBytes: number
  /** How many mappings now map the memory file. */
  readonly vmas: number
}

interface PlannedTask {
  readonly images: TaskImages
  readonly change: TaskChange | undefined
}

/**
 * Turns a dump whose memory is copied at restore into one whose memory is mapped copy-on-write. Afterwards `outDir`
 * restores without `rawDir`. On failure `memoryDir` is unchanged and the content of `outDir` is useless. Does not sync.
 */
export async function mapMemory(options: MapMemory): Promise<MappedImage> {
  const { rawDir, outDir, minPages = MIN_PAGES } = options
  const inventory = await readInventory(rawDir)
  await adoptUserNamespace(inventory, rawDir)
  const files = options.files ?? new OpenFiles(await readImage(join(rawDir, 'files.img')))
  const referencedMemoryFiles = memoryFilesIn(files)

  const symbol = await readGuardSymbol(options.guard.hostPath)
  const names = await readdir(rawDir)
  const tasks: PlannedTask[] = []
  for (const pid of taskPids(names)) {
    const images = await readTask(rawDir, pid)
    tasks.push({ images, change: await planTask(images, { symbol, files, imageDir: rawDir, minPages }) })
  }

  const memoryNames = tasks.flatMap(({ images, change }) =>
    change && change.moves.length > 0 ? [memoryName(options, images.pid)] : [],
  )
  try {
    const memoryFiles = await options.worker.move(tasks.flatMap((task) => toMoves(options, task)))
    const rewritten = new Set(['inventory.img', 'files.img'])
    for (const task of tasks) for (const name of await writeTask(options, task, files)) rewritten.add(name)
    await writeImage(join(outDir, 'inventory.img'), inventory)
    await writeImage(join(outDir, 'files.img'), files.image)
    await shareImages(
      options,
      names.filter((name) => isUnchanged(name, rewritten)),
    )
    return { ...summarize(tasks), memoryFiles, referencedMemoryFiles }
  } catch (error) {
    for (const name of memoryNames) await rm(join(options.memoryDir, name), { force: true })
    throw error
  }
}

/** The names of the memory files that the tasks of a dump map. */
export function memoryFilesIn(files: OpenFiles): string[] {
  return [...new Set(files.paths)].flatMap((path) => {
    if (!path.startsWith(MEMORY_PATH)) return []
    const name = path.slice(MEMORY_PATH.length)
    // The directory is flat and read-only inside. The caller builds a host path from this name.
    if (!/^[\w-]+$/.test(name)) throw new Error(`${path} is not the name of a memory file`)
    return [name]
  })
}

/** CRIU refuses processes that share memory, so every process has its own mm image. */
export function taskPids(names: readonly string[]): number[] {
  return names
    .flatMap((name) => /^mm-(\d+)\.img$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((one, other) => one - other)
}

function memoryName({ memoryId }: MapMemory, pid: number): string {
  return `${memoryId}-${pid}`
}

function toMoves(options: MapMemory, { images, change }: PlannedTask): PageMoves[] {
  if (change === undefined) return []
  const moves = {
    sourcePath: join(options.rawDir, images.pagesName),
    keptPath: join(options.outDir, images.pagesName),
    keep: change.keep,
  }
  if (change.moves.length === 0) return [moves]
  const path = join(options.memoryDir, memoryName(options, images.pid))
  return [{ ...moves, memory: { path, sizeBytes: change.layout.sizeBytes, moves: change.moves } }]
}

/** Writes the images of a task that changes and returns their names. Its pages are already in place. */
async function writeTask(
  options: MapMemory,
  { images, change }: PlannedTask,
  files: OpenFiles,
): Promise<string[]> {
  if (change === undefined) return []
  const { pid, mm, pagemap, pagesName } = images
  const { placed, sizeBytes } = change.layout
  if (placed.length > 0) {
    const path = MEMORY_PATH + memoryName(options, pid)
    const fileId = files.add({ path, sizeBytes, permissions: MEMORY_FILE_PERMISSIONS })
    const chosen = new Map(placed.map(({ start, fileOffset }) => [start, { fileId, fileOffset }]))
    mapAreasToFile(mm.records[0]?.message ?? [], chosen)
  }
  const names = [`mm-${pid}.img`, `pagemap-${pid}.img`, pagesName] as const
  await writeImage(join(options.outDir, names[0]), mm)
  await writeImage(join(options.outDir, names[1]), withRuns(pagemap, change.keptRuns))
  await writeGuardTable(join(options.outDir, pagesName), change.keptRuns, change.guard)
  return [...names]
}

function isUnchanged(name: string, rewritten: ReadonlySet<string>): boolean {
  // The restore runs in the burrow's user namespace. With this image CRIU would create another inside it.
  return name.endsWith('.img') && !rewritten.has(name) && !/^userns-\d+\.img$/.test(name)
}

async function shareImages({ rawDir, outDir }: MapMemory, names: readonly string[]): Promise<void> {
  const share = async (name: string) => {
    const from = join(rawDir, name)
    const to = join(outDir, name)
    // On failure copies: another file system, or one without hard links.
    await link(from, to).catch(() => copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE))
  }
  await allOf(names.map(share))
}

function summarize(planned: readonly PlannedTask[]) {
  const tasks = planned.map(({ images, change }) => ({
    pid: images.pid,
    mappedBytes: total(change?.moves ?? []),
    copiedBytes: total(change?.keep ?? images.runs.map(({ start, end }) => ({ lengthBytes: end - start }))),
    vmas: change?.layout.placed.length ?? 0,
  }))
  const sum = (of: (task: MappedTask) => number) => tasks.reduce((bytes, task) => bytes + of(task), 0)
  return {
    tasks,
    mappedBytes: sum((task) => task.mappedBytes),
    copiedBytes: sum((task) => task.copiedBytes),
  }
}

function total(pieces: readonly { lengthBytes: bigint }[]): number {
  return Number(pieces.reduce((bytes, { lengthBytes }) => bytes + lengthBytes, 0n))
}
