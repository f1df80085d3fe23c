import { type FileHandle, open, readFile } from 'node:fs/promises'
import { type ElfSymbol, findElfSymbol } from './elf-symbol.ts'
import { isPrivateFile, type MemoryArea } from './memory-area.ts'
import type { OpenFiles } from './open-files.ts'
import { cutRuns, type PageRun } from './pagemap.ts'

/** Where every burrow sees the guard library. */
const GUARD_PATH = '/.dormouse/lib/libdormouse-guard.so'
const TABLE_SYMBOL = 'dormouse_guard_table'

// struct guard_table of native/src/guard.h: { u64 magic; u32 version; u32 capacity; u32 count; u32 reserved; struct {
// u64 start, end; } ranges[capacity]; u64 rootDevice; }
const TABLE_MAGIC = Buffer.from('DORMGUAR')
const TABLE_VERSION = 1
const AT_VERSION = 8
const AT_CAPACITY = 12
const AT_COUNT = 16
const AT_RANGES = 24
const RANGE_BYTES = 16

export interface AddressRange {
  readonly start: bigint
  readonly end: bigint
}

/**
 * A list of address ranges that map a memory file, in the memory of a task. The guard library reads it to make those
 * ranges behave like anonymous memory. The engine fills it in while the task is only an image.
 */
export interface GuardTable extends AddressRange {
  readonly capacity: number
  readonly content: Buffer
}

export async function readGuardSymbol(libraryPath: string): Promise<ElfSymbol> {
  const symbol = findElfSymbol(await readFile(libraryPath), TABLE_SYMBOL)
  if (symbol === undefined) throw new Error(`${libraryPath} does not export ${TABLE_SYMBOL}`)
  return symbol
}

/** Returns undefined when the task does not have the guard loaded, or a version that this release does not know. */
export async function findGuardTable(task: {
  symbol: ElfSymbol
  areas: readonly MemoryArea[]
  files: OpenFiles
  runs: readonly PageRun[]
  pagesPath: string
}): Promise<GuardTable | undefined> {
  // A program may have mapped the library a second time as data. Only the loaded copy has our table.
  for (const area of task.areas) {
    if (!isPrivateFile(area) || area.fileOffset !== 0n) continue
    if (task.files.findPath(area.fileId) !== GUARD_PATH) continue
    const start = area.start + task.symbol.offset
    const range = { start, end: start + task.symbol.sizeBytes }
    const content = await readRange(task.pagesPath, task.runs, range)
    if (content !== undefined && isOurTable(content))
      return { ...range, content, capacity: capacityOf(content) }
  }
  return undefined
}

function isOurTable(content: Buffer): boolean {
  return (
    content.length >= AT_RANGES &&
    content.subarray(0, TABLE_MAGIC.length).equals(TABLE_MAGIC) &&
    content.readUInt32LE(AT_VERSION) === TABLE_VERSION
  )
}

function capacityOf(content: Buffer): number {
  const room = Math.floor((content.length - AT_RANGES) / RANGE_BYTES)
  return Math.min(content.readUInt32LE(AT_CAPACITY), room)
}

/**
 * Returns the bytes of the table with these ranges (sorted, at most `capacity`). The rest is 0, including the device
 * number of the root: it changes with a wake, and the guard asks for it again.
 */
export function fillGuardTable(table: GuardTable, ranges: readonly AddressRange[]): Buffer {
  if (ranges.length > table.capacity) throw new Error(`${ranges.length} ranges, room for ${table.capacity}`)
  const content = Buffer.alloc(table.content.length)
  table.content.copy(content, 0, 0, AT_RANGES)
  content.writeUInt32LE(ranges.length, AT_COUNT)
  ranges.forEach(({ start, end }, index) => {
    content.writeBigUInt64LE(start, AT_RANGES + index * RANGE_BYTES)
    content.writeBigUInt64LE(end, AT_RANGES + index * RANGE_BYTES + 8)
  })
  return content
}

/** Writes `content` over the table's pages in a pages image that `runs` describe. */
export async function writeGuardTable(
  pagesPath: string,
  runs: readonly PageRun[],
  { table, content }: { table: GuardTable; content: Buffer },
): Promise<void> {
  await usingFile(pagesPath, 'r+', async (file) => {
    for (const { at, length, offset } of pieces(runs, table)) {
      const { bytesWritten } = await file.write(content, at, length, offset)
      if (bytesWritten !== length) throw new Error(`${pagesPath}: the guard table was not written`)
    }
  })
}

async function readRange(
  pagesPath: string,
  runs: readonly PageRun[],
  range: AddressRange,
): Promise<Buffer | undefined> {
  const found = pieces(runs, range)
  const content = Buffer.alloc(Number(range.end - range.start))
  if (found.reduce((sum, { length }) => sum + length, 0) !== content.length) return undefined
  await usingFile(pagesPath, 'r', async (file) => {
    for (const { at, length, offset } of found) {
      const { bytesRead } = await file.read(content, at, length, offset)
      if (bytesRead !== length) throw new Error(`${pagesPath} is shorter than its pagemap says`)
    }
  })
  return content
}

function pieces(runs: readonly PageRun[], range: AddressRange) {
  return [...cutRuns(runs, [range])].flatMap(({ run, area }) =>
    area === undefined
      ? []
      : [
          {
            at: Number(run.start - range.start),
            length: Number(run.end - run.start),
            offset: Number(run.offset),
          },
        ],
  )
}

async function usingFile(path: string, flags: string, use: (file: FileHandle) => Promise<void>) {
  const file = await open(path, flags)
  try {
    await use(file)
  } finally {
    await file.close()
  }
}
