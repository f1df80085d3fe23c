import { constants, copyFile, link, readdir, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { allOf } from '@dormouse/async'
import { chooseRewrites } from './choose-rewrites.ts'
import { dropUnchanged } from './drop-unchanged.ts'
import { readGuardSymbol, writeGuardTable } from './guard-table.ts'
import { readImage, writeImage } from './image-file.ts'
import { adoptUserNamespace, readInventory } from './inventory.ts'
import {
  changeTask,
  MEMORY_PATH,
  planTask,
  readTask,
  type TaskChange,
  type TaskImages,
  type TaskPlan,
} from './map-task.ts'
import { mapRangesToFile } from './memory-area.ts'
import { findUnused, locateBases, memoryFilesIn } from './memory-files.ts'
import { OpenFiles } from './open-files.ts'
import type { PageMover, PageMoves, SealedMemory } from './page-mover.ts'
import { withRuns } from './pagemap.ts'
import { releaseFiles } from './release-files.ts'

/** VMAs with fewer present pages are copied: one more mapping costs about as much as copying 16 pages. */
const MIN_PAGES = 16
const STAT_BLOCK_BYTES = 512
export const MEMORY_FILE_PERMISSIONS = 0o400

export interface MapMemory {
  /** A complete dump, as CRIU wrote it. mapMemory does not change it. */
  readonly rawDir: string
  /** Exists and is empty. On the same file system as `rawDir`, unchanged images become hard links. */
  readonly outDir: string
  readonly memoryDir: string
  /** Has the memory files that the dumped processes map. */
  readonly basesDir: string
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

interface ChangedTask {
  readonly images: TaskImages
  readonly change: TaskChange | undefined
}

/**
 * Turns a dump whose memory is copied at restore into one whose memory is mapped copy-on-write. Afterwards `outDir`
 * restores without `rawDir`. On failure `memoryDir` is unchanged and the content of `outDir` is useless. Does not sync.
 */
export async function mapMemory(options: MapMemory): Promise<MappedImage> {
  const { rawDir, outDir } = options
  const inventory = await readInventory(rawDir)
  await adoptUserNamespace(inventory, rawDir)
  const files = options.files ?? new OpenFiles(await readImage(join(rawDir, 'files.img')))
  const names = await readdir(rawDir)
  const tasks = await planChanges(options, files, taskPids(names))
  const memoryNames = tasks.flatMap(({ images, change }) =>
    change && change.layout.placed.length > 0 ? [memoryName(options, images.pid)] : [],
  )
  try {
    const memoryFiles = await options.worker.move(tasks.flatMap((task) => toMoves(options, task, files)))
    const rewritten = new Set(['inventory.img', 'files.img'])
    for (const task of tasks) for (const name of await writeTask(options, task, files)) rewritten.add(name)
    const former = new Set(tasks.flatMap(({ change }) => [...(change?.formerFiles ?? [])]))
    const mms = tasks.map(({ images }) => images.mm)
    files.drop(await findUnused(former, { imageDir: rawDir, mms }))
    await writeImage(join(outDir, 'inventory.img'), inventory)
    await writeImage(join(outDir, 'files.img'), files.image)
    await shareImages(
      options,
      names.filter((name) => isUnchanged(name, rewritten)),
    )
    const made = new Set(memoryNames)
    const referencedMemoryFiles = memoryFilesIn(files).filter((name) => !made.has(name))
    return { ...summarize(tasks), memoryFiles, referencedMemoryFiles }
  } catch (error) {
    for (const name of memoryNames) await rm(join(options.memoryDir, name), { force: true })
    throw error
  }
}

async function planChanges(
  options: MapMemory,
  files: OpenFiles,
  pids: readonly number[],
): Promise<ChangedTask[]> {
  const { rawDir, minPages = MIN_PAGES } = options
  const symbol = await readGuardSymbol(options.guard.hostPath)
  const tasks: { images: TaskImages; plan: TaskPlan | undefined }[] = []
  const dumped = await allOf(pids.map((pid) => readTask(rawDir, pid)))
  for (const images of await allOf(dumped.map((task) => dropUnchanged(task, { ...options, files })))) {
    tasks.push({ images, plan: await planTask(images, { symbol, files, imageDir: rawDir, minPages }) })
  }
  const copiedBytes = tasks.reduce((bytes, { images, plan }) => bytes + copiedBytesOf(images, plan), 0)
  const regions = tasks.flatMap(({ plan }) => plan?.regions ?? [])
  const storedBytes = await measureFiles(options, files)
  const baseMaxBytes = await baseBytesAllowed(options, storedBytes)
  const chosen = chooseRewrites(regions, { copiedBytes, baseMaxBytes })
  const rewrites = releaseFiles(regions, chosen, storedBytes)
  return tasks.map(({ images, plan }) => {
    const own = new Set(plan?.regions)
    const change =
      plan &&
      changeTask(
        plan,
        rewrites.filter(({ region }) => own.has(region)),
      )
    return { images, change }
  })
}

/** What a restore copies if no region is rewritten. */
function copiedBytesOf({ runs }: TaskImages, plan: TaskPlan | undefined): number {
  const mapped = [...(plan?.candidates.values() ?? [])].reduce((sum, bytes) => sum + bytes, 0n)
  return Number(runs.reduce((bytes, { start, end }) => bytes + end - start, 0n) - mapped)
}

/** The disk space of each memory file that the tasks map. */
async function measureFiles({ basesDir }: MapMemory, files: OpenFiles): Promise<Map<string, number>> {
  const measure = async (name: string) =>
    [name, (await stat(join(basesDir, name))).blocks * STAT_BLOCK_BYTES] as const
  return new Map(await Promise.all(memoryFilesIn(files).map(measure)))
}

/**
 * How many unchanged bytes a save may copy. Code inside can map a memory file any number of times. And half of the free
 * disk stays free: a snapshot that restores slowly is better than none.
 */
async function baseBytesAllowed(
  { basesDir }: MapMemory,
  storedBytes: ReadonlyMap<string, number>,
): Promise<number> {
  const allBytes = [...storedBytes.values()].reduce((sum, bytes) => sum + bytes, 0)
  const { bavail, bsize } = await statfs(basesDir)
  return Math.min(2 * allBytes, (bavail * bsize) / 2)
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

function toMoves(options: MapMemory, { images, change }: ChangedTask, files: OpenFiles): PageMoves[] {
  if (change === undefined) return []
  const moves = {
    sourcePath: join(options.rawDir, images.pagesName),
    keptPath: join(options.outDir, images.pagesName),
    keep: change.keep,
  }
  if (change.layout.placed.length === 0) return [moves]
  const path = join(options.memoryDir, memoryName(options, images.pid))
  const bases = locateBases(change.bases, options.basesDir, files)
  return [{ ...moves, memory: { path, sizeBytes: change.layout.sizeBytes, bases, moves: change.moves } }]
}

/** Writes the images of a task that changes and returns their names. Its pages are already in place. */
async function writeTask(
  options: MapMemory,
  { images, change }: ChangedTask,
  files: OpenFiles,
): Promise<string[]> {
  if (change === undefined) return []
  const { pid, mm, pagemap, pagesName } = images
  const { placed, sizeBytes } = change.layout
  if (placed.length > 0) {
    const path = MEMORY_PATH + memoryName(options, pid)
    const fileId = files.add({ path, sizeBytes, permissions: MEMORY_FILE_PERMISSIONS })
    mapRangesToFile(
      mm.records[0]?.message ?? [],
      placed.map((place) => ({ ...place, fileId })),
    )
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

function summarize(planned: readonly ChangedTask[]) {
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
