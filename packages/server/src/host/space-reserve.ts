import { randomBytes } from 'node:crypto'
import { readdirSync, rmSync, statfsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freeRoom } from './host-room.ts'

/** Enough for some hundred transactions or a few wakes at once on a disk that is otherwise full. */
const RESERVE_MAX_BYTES = 16 * 1024 ** 2
const PIECES = 32
/** A wake makes a dozen files and directories, and two spares are made after it. */
const NAMES_MAX = 256
/** At most this share of the file system: the reserve must not fill a small one. */
const SHARE = 64
/** The reserve is refilled only if this many times its size is free: otherwise it would fill the disk itself. */
const REFILL_FACTOR = 4
/** Also the delay after a start, so that callers who waited for the server come first. */
const REFILL_MS = 2_000

export interface Room {
  readonly bytes: number
  readonly files: number
}

/** For one transaction of the server's records, a grown WAL included. */
export const ROOM_FOR_RECORDS: Room = { bytes: 256 * 1024, files: 8 }
/** For the start of a server: opening its databases creates files. */
export const ROOM_FOR_START: Room = { bytes: 1024 ** 2, files: 48 }
/**
 * For a burrow that is restored from a snapshot: directories, its record, links to memory files, and for a moment the
 * pages of a folded snapshot.
 */
export const ROOM_FOR_WAKE: Room = { bytes: 5 * 1024 ** 2, files: 96 }

/**
 * The disk reserve: files that hold space on the disk of the data directory and are deleted when it is full. An
 * operator can then still start the server, list, run and delete, and so make room. Pieces hold bytes, names hold
 * inodes.
 */
export class SpaceReserve {
  readonly #dataDir: string
  readonly #dir: string
  readonly #pieceBytes: number
  readonly #nameCount: number
  readonly #pieces: Set<string>
  readonly #names: Set<string>
  #refilling: Promise<void> | undefined

  /** Finds what an earlier server left of the reserve. Writes nothing: see `refill`. */
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
   * Post: this much space is free, as far as the reserve reaches. `leaves`: the share of the reserve to keep for more
   * important needs. Takes microseconds when the space is free already.
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

  /** Refills the reserve periodically until disposed. */
  keepWhole(): Disposable {
    const timer = setInterval(() => {
      if (!this.isWhole) void this.refill()
    }, REFILL_MS)
    timer.unref()
    return { [Symbol.dispose]: () => clearInterval(timer) }
  }

  /** Refills the reserve if there is plenty of space. Never throws. */
  refill(): Promise<void> {
    this.#refilling ??= this.#refill()
      // The disk is full or failing: the next refill tries again.
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
      // Random bytes, because a compressing file system would store zeros in no space.
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
      // A piece that cannot be deleted frees nothing; the next one may.
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
