import { readSync, writeSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { SparseFile } from '@dormouse/engine'

const PAGE_BYTES = 4096
/** The bytes of a map: see native/src/arriving-files.h. */
const THERE = 0
const MISSING = 1
const LOST = 2

/** A range of a memory file, and where its bytes are among those of all extents. */
interface Piece {
  readonly fileOffset: number
  readonly dataOffset: number
  readonly lengthBytes: number
}

/** One memory file that is still arriving, with the map that says which of its pages are there. */
export class ArrivingFile {
  readonly name: string
  readonly memory: SparseFile
  /** Chunks that were missing when it was opened. */
  readonly missing: readonly number[]
  readonly #pieces: readonly Piece[]
  readonly #file: FileHandle
  readonly #map: FileHandle

  private constructor(
    { name, memory }: OpenArrivingFile,
    { file, map, isNew }: { file: FileHandle; map: FileHandle; isNew: boolean },
  ) {
    this.name = name
    this.memory = memory
    this.#file = file
    this.#map = map
    let dataOffset = 0
    this.#pieces = memory.extents.map(([fileOffset, lengthBytes]) => {
      const piece = { fileOffset, dataOffset, lengthBytes }
      dataOffset += lengthBytes
      return piece
    })
    const all = Array.from({ length: Math.ceil(dataOffset / memory.chunkBytes) }, (_, chunk) => chunk)
    // A wake waits for this: a gigabyte has thousands of chunks.
    this.missing = isNew ? all : all.filter((chunk) => !this.#isThere(chunk))
  }

  /** Makes an empty file, and a map on which every page of an extent is missing. */
  static async create(options: OpenArrivingFile, { owner, mode }: FileRights): Promise<ArrivingFile> {
    const { path, mapPath, memory } = options
    const opened = [() => open(path, 'wx+', mode), () => open(mapPath, 'wx+', 0o600)] as const
    return await withBoth(opened, async (file, map) => {
      await file.truncate(memory.sizeBytes)
      await file.chmod(mode)
      await file.chown(owner, owner)
      await map.truncate(Math.ceil(memory.sizeBytes / PAGE_BYTES))
      markExtents(map.fd, memory)
      return new ArrivingFile(options, { file, map, isNew: true })
    })
  }

  /** Opens what an earlier server has left. `isTrusted`: it is of the same boot, so that the map is right. */
  static async open(options: OpenArrivingFile, { isTrusted }: { isTrusted: boolean }): Promise<ArrivingFile> {
    const opened = [() => open(options.path, 'r+'), () => open(options.mapPath, 'r+')] as const
    return await withBoth(opened, async (file, map) => {
      if (!isTrusted) markExtents(map.fd, options.memory)
      return new ArrivingFile(options, { file, map, isNew: !isTrusted })
    })
  }

  async close(): Promise<void> {
    await this.#file.close()
    await this.#map.close()
  }

  /** Writes a chunk. A process that waits for one of its pages may read it afterwards. */
  async write(chunk: number, data: Uint8Array): Promise<void> {
    const start = chunk * this.memory.chunkBytes
    for (const { fileOffset, dataOffset, lengthBytes } of this.#piecesOf(chunk))
      await this.#file.write(data, dataOffset - start, lengthBytes, fileOffset)
    await this.#mark(chunk, THERE)
  }

  /** The chunk cannot be fetched any more: readers that wait for it get an error. */
  async lose(chunk: number): Promise<void> {
    await this.#mark(chunk, LOST)
  }

  /** The chunks that have bytes of a range of the file. */
  chunksAt(offset: number, lengthBytes: number): number[] {
    const { chunkBytes } = this.memory
    const chunks: number[] = []
    for (let index = this.#firstPieceAfter(offset); index < this.#pieces.length; index += 1) {
      const piece = this.#pieces[index] as Piece
      const start = Math.max(offset, piece.fileOffset)
      const end = Math.min(offset + lengthBytes, piece.fileOffset + piece.lengthBytes)
      if (start >= end) break
      const shift = piece.dataOffset - piece.fileOffset
      for (let at = Math.floor((start + shift) / chunkBytes); at * chunkBytes < end + shift; at += 1)
        if (chunks.at(-1) !== at) chunks.push(at)
    }
    return chunks
  }

  /** The first piece is last: a server that is killed in between leaves a chunk that is still missing. */
  async #mark(chunk: number, state: number): Promise<void> {
    for (const { fileOffset, lengthBytes } of this.#piecesOf(chunk).reverse()) {
      const pages = Buffer.alloc(Math.ceil(lengthBytes / PAGE_BYTES), state)
      await this.#map.write(pages, 0, pages.length, fileOffset / PAGE_BYTES)
    }
  }

  /** Synchronous: one byte that is in memory. The first page of a chunk is marked after all others. */
  #isThere(chunk: number): boolean {
    const state = Buffer.alloc(1)
    const [first] = this.#piecesOf(chunk)
    readSync(this.#map.fd, state, 0, 1, (first?.fileOffset ?? 0) / PAGE_BYTES)
    return state[0] === THERE
  }

  #piecesOf(chunk: number): Piece[] {
    const start = chunk * this.memory.chunkBytes
    const end = start + this.memory.chunkBytes
    const pieces: Piece[] = []
    for (let index = this.#pieceHolding(start); index < this.#pieces.length; index += 1) {
      const piece = this.#pieces[index] as Piece
      const from = Math.max(start, piece.dataOffset)
      const to = Math.min(end, piece.dataOffset + piece.lengthBytes)
      if (from >= to) break
      const fileOffset = piece.fileOffset + from - piece.dataOffset
      pieces.push({ fileOffset, dataOffset: from, lengthBytes: to - from })
    }
    return pieces
  }

  #pieceHolding(dataOffset: number): number {
    return firstIndex(this.#pieces, (piece) => piece.dataOffset + piece.lengthBytes > dataOffset)
  }

  #firstPieceAfter(fileOffset: number): number {
    return firstIndex(this.#pieces, (piece) => piece.fileOffset + piece.lengthBytes > fileOffset)
  }
}

export interface OpenArrivingFile {
  readonly name: string
  readonly path: string
  readonly mapPath: string
  readonly memory: SparseFile
}

/** The user and group that owns a file, and who may read it. */
export interface FileRights {
  readonly owner: number
  readonly mode: number
}

/** Opens a file and its map for `work`, which keeps them. On failure neither stays open. */
async function withBoth<Value>(
  [openFile, openMap]: readonly [() => Promise<FileHandle>, () => Promise<FileHandle>],
  work: (file: FileHandle, map: FileHandle) => Promise<Value>,
): Promise<Value> {
  const opened: FileHandle[] = []
  try {
    const file = await openFile()
    opened.push(file)
    const map = await openMap()
    opened.push(map)
    return await work(file, map)
  } catch (error) {
    for (const handle of opened) await handle.close()
    throw error
  }
}

/** Synchronous: some hundred calls of microseconds, and a wake waits for them. */
function markExtents(map: number, { extents }: SparseFile): void {
  for (const [offset, lengthBytes] of extents) {
    const pages = Buffer.alloc(Math.ceil(lengthBytes / PAGE_BYTES), MISSING)
    writeSync(map, pages, 0, pages.length, offset / PAGE_BYTES)
  }
}

/** Binary search. Pre: once `isAfter` is true, it stays true. */
function firstIndex<Item>(items: readonly Item[], isAfter: (item: Item) => boolean): number {
  let [low, high] = [0, items.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (isAfter(items[middle] as Item)) high = middle
    else low = middle + 1
  }
  return low
}
