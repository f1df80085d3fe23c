import { WireType } from '@bufbuild/protobuf/wire'
import { type ImageFile, plainRecord } from './image-file.ts'
import {
  findMessage,
  findText,
  findUint,
  getUint,
  type Message,
  setBytes,
  setMessage,
  setUint,
} from './message.ts'

const FILE = { type: 1, id: 2, reg: 3 } as const
const TYPE_REGULAR = 1n
const REGULAR = { id: 1, flags: 2, pos: 3, fown: 5, name: 6, size: 8, mode: 10 } as const
const O_ACCMODE = 3n
const O_RDONLY = 0n
/** Size, mode, build-ID, checksum and its two parameters: what CRIU compares to decide whether a file is the same. */
const LOOKS: ReadonlySet<number> = new Set([8, 10, 11, 12, 13, 14])
/** uid, euid, signum, pid_type and pid of a file without a signal owner (F_SETOWN). */
const FOWN_FIELDS = [1, 2, 3, 4, 5]

/** A file, directory or other path that a task has open, maps, or has as its directory. */
export interface OpenPath {
  readonly id: bigint
  readonly path: string
  readonly isWritten: boolean
  /** As in stat(2). */
  readonly mode: bigint
  /** Known only for files open for reading. */
  readonly sizeBytes: bigint | undefined
}

/** Every file that the tasks have open or mapped, by the ids that other images use (files.img). */
export class OpenFiles {
  readonly #image: ImageFile
  readonly #paths = new Map<bigint, string>()
  /** Messages of regular files, by id. */
  readonly #messages = new Map<bigint, Message>()
  #lastId = 0n

  constructor(image: ImageFile) {
    this.#image = image
    for (const { message } of image.records) {
      const id = getUint(message, FILE.id)
      if (id > this.#lastId) this.#lastId = id
      if (getUint(message, FILE.type) !== TYPE_REGULAR) continue
      this.#messages.set(id, message)
      const path = findText(findMessage(message, FILE.reg) ?? [], REGULAR.name)
      if (path !== undefined) this.#paths.set(id, path)
    }
  }

  get image(): ImageFile {
    return this.#image
  }

  get paths(): Iterable<string> {
    return this.#paths.values()
  }

  /** Paths of the files that are open or mapped for writing. */
  get writtenPaths(): string[] {
    return this.#image.records.flatMap(({ message }) => {
      const regular = findMessage(message, FILE.reg)
      if (regular === undefined || (getUint(regular, REGULAR.flags) & O_ACCMODE) === O_RDONLY) return []
      return findText(regular, REGULAR.name) ?? []
    })
  }

  get all(): OpenPath[] {
    return this.#image.records.flatMap(({ message }) => {
      const regular = findMessage(message, FILE.reg)
      const path = regular && findText(regular, REGULAR.name)
      if (regular === undefined || path === undefined) return []
      return {
        id: getUint(message, FILE.id),
        path,
        isWritten: (getUint(regular, REGULAR.flags) & O_ACCMODE) !== O_RDONLY,
        mode: findUint(regular, REGULAR.mode) ?? 0n,
        sizeBytes: findUint(regular, REGULAR.size),
      }
    })
  }

  /** Lets a restore accept any file at its path, or at `path` if given. */
  relax(id: bigint, path?: string): void {
    const message = this.#messages.get(id)
    const regular = message && findMessage(message, FILE.reg)
    if (message === undefined || regular === undefined) return
    const relaxed = regular.filter(({ no }) => !LOOKS.has(no))
    if (path !== undefined) {
      setBytes(relaxed, REGULAR.name, Buffer.from(path))
      this.#paths.set(id, path)
    }
    setMessage(message, FILE.reg, relaxed)
  }

  findPath(id: bigint): string | undefined {
    return this.#paths.get(id)
  }

  /** Removes files. Pre: no other image refers to them. */
  drop(ids: ReadonlySet<bigint>): void {
    const kept = this.#image.records.filter(({ message }) => !ids.has(getUint(message, FILE.id)))
    // A loop: a hundred thousand records are too many as arguments of one call.
    this.#image.records.length = 0
    for (const record of kept) this.#image.records.push(record)
    for (const id of ids) {
      this.#paths.delete(id)
      this.#messages.delete(id)
    }
  }

  /** Adds a regular file, open for reading, and returns its id. CRIU refuses to restore when the size differs. */
  add(file: { path: string; sizeBytes: bigint; permissions: number }): bigint {
    const id = ++this.#lastId
    const S_IFREG = 0o100000
    const regular: Message = []
    setUint(regular, REGULAR.id, id)
    setUint(regular, REGULAR.flags, 0n)
    setUint(regular, REGULAR.pos, 0n)
    setMessage(
      regular,
      REGULAR.fown,
      FOWN_FIELDS.map((no) => ({ no, type: WireType.Varint, value: 0n })),
    )
    setBytes(regular, REGULAR.name, Buffer.from(file.path))
    setUint(regular, REGULAR.size, file.sizeBytes)
    setUint(regular, REGULAR.mode, BigInt(S_IFREG | file.permissions))
    const entry: Message = []
    setUint(entry, FILE.type, TYPE_REGULAR)
    setUint(entry, FILE.id, id)
    setMessage(entry, FILE.reg, regular)
    this.#image.records.push(plainRecord(entry))
    this.#messages.set(id, entry)
    this.#paths.set(id, file.path)
    return id
  }
}
