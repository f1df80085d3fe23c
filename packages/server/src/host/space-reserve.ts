import { randomBytes } from 'node:crypto'
import { readdirSync, rmSync, statfsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freeRoom } from './host-room.ts'

/** Some hundred transactions of the server's records, or a dozen wakes, on a disk that has nothing else left. */
const RESERVE_MAX_BYTES = 16 * 1024 ** 2
const PIECES = 32
/** A wake makes a dozen files and directories, and two spares are made after it. */
const NAMES_MAX = 256
/** Of a small file system: the reserve must not be what fills it. */
const SHARE = 64
/** It is made again only where there is this many times as much room: otherwise it would be what fills the disk. */
const REFILL_FACTOR = 4
/** Also how long after a start it is first made: those who have waited for a server come first. */
const REFILL_MS = 2_000

export interface Room {
  readonly bytes: number
  readonly files: number
}

/** What one transaction of the server's records may need, a grown WAL included. */
export const ROOM_FOR_RECORDS: Room = { bytes: 256 * 1024, files: 8 }
/** What starting a server may need: its databases make files when they are opened. */
export const ROOM_FOR_START: Room = { bytes: 1024 ** 2, files: 48 }
/** What a burrow needs that starts from a snapshot: directories, its record, links to memory files. */
export const ROOM_FOR_WAKE: Room = { bytes: 512 * 1024, files: 48 }

/**
 * Files that take up room on the disk of the data directory, to be deleted when there is none left: starting, listing, deleting and running must
 * be possible on a full disk, because they are how an operator makes room. Pieces hold bytes, names hold inodes.
 */
export class SpaceReserve {
  readonly #dataDir: string
  readonly #dir: string
  readonly #pieceBytes: number
  readonly #nameCount: number
  readonly #pieces: Set<string>
  readonly #names: Set<string>
  #refilling: Promise<void> | undefined

  /** Looks at what an earlier server has left of it. Writes nothing: see `refill`. */
  constructor(dataDir: string) {
    this.#dataDir = dataDir
    this.#dir = join(dataDir, 'reserve')
    const { blocks, bsize, files } = statfsSync(dataDir)
    this.#pieceBytes = Math.floor(Math.min(RESERVE_MAX_BYTES, (blocks * bsize) / SHARE) / PIECES)
    this.#nameCount = Math.floor(Math.min(NAMES_MAX, files / SHARE))
    const found = list(this.#dir)
    this.#pieces = new Set(found.filter((name) => name.startsWith('piece-')))
    this.#names = new Set(found.filter((name) => name.startsWith('name-')))
  }

  /**
   * Post: this much room is free, as far as the reserve reaches. `leaves`: the share of the reserve that is not touched, for more important
   * needs. Takes microseconds where there is room.
   */
  makeRoom({ bytes, files }: Room, { leaves = 0 } = {}): void {
    for (;;) {
      const free = this.#free()
      const isShortOfBytes = free.bytes < bytes && this.#pieces.size > PIECES * leaves
      const isShortOfFiles = free.files < files && this.#names.size > this.#nameCount * leaves
      if (!isShortOfBytes && !isShortOfFiles) return
      if (isShortOfBytes) this.#give(this.#pieces)
      if (isShortOfFiles) this.#give(this.#names)
    }
  }

  get isWhole(): boolean {
    return this.#pieces.size >= PIECES && this.#names.size >= this.#nameCount
  }

  /** Makes what is missing now and then, until it is disposed. */
  keepWhole(): Disposable {
    const timer = setInterval(() => {
      if (!this.isWhole) void this.refill()
    }, REFILL_MS)
    timer.unref()
    return { [Symbol.dispose]: () => clearInterval(timer) }
  }

  /** Makes what is missing, where there is plenty of room. Again is fine; failing costs nothing. */
  refill(): Promise<void> {
    this.#refilling ??= this.#refill()
      .catch(() => {})
      .finally(() => {
        this.#refilling = undefined
      })
    return this.#refilling
  }

  async #refill(): Promise<void> {
    const missing = {
      bytes: (PIECES - this.#pieces.size) * this.#pieceBytes,
      files: PIECES + this.#nameCount - this.#pieces.size - this.#names.size,
    }
    const free = this.#free()
    if (free.bytes < missing.bytes * REFILL_FACTOR || free.files < missing.files * REFILL_FACTOR) return
    await mkdir(this.#dir, { recursive: true, mode: 0o700 })
    const isEnough = () => this.#free().bytes > this.#pieceBytes * REFILL_FACTOR
    for (const name of numbered('piece', PIECES)) {
      if (this.#pieces.has(name) || !isEnough()) continue
      // Random: a file system that compresses would keep no room for zeros.
      await writeFile(join(this.#dir, name), randomBytes(this.#pieceBytes), { mode: 0o600 })
      this.#pieces.add(name)
    }
    for (const name of numbered('name', this.#nameCount)) {
      if (this.#names.has(name) || !isEnough()) continue
      await writeFile(join(this.#dir, name), '', { mode: 0o600 })
      this.#names.add(name)
    }
  }

  #give(from: Set<string>): void {
    const [name] = from
    if (name === undefined) return
    from.delete(name)
    try {
      rmSync(join(this.#dir, name), { force: true })
    } catch {
      // What cannot be deleted gives no room: the next piece may.
    }
  }

  #free(): Room {
    return freeRoom(this.#dataDir)
  }
}

function list(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

function numbered(kind: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${kind}-${index}`)
}
