import { statSync } from 'node:fs'

interface Remembered<Value> {
  /** Inode, size and times of the file when it was read. */
  readonly attributes: string
  readonly value: Value
}

/** Caches what was parsed from files, and reads a file again only when it has changed. */
export class FileCache<Value> {
  readonly #max: number
  readonly #known = new Map<string, Remembered<Value>>()

  constructor(max: number) {
    this.#max = max
  }

  /** Calls `read`, and throws what it throws, when the file is new, has changed or is missing. */
  async get(path: string, read: () => Promise<Value>): Promise<Value> {
    const attributes = readAttributes(path)
    const known = this.#known.get(path)
    if (known !== undefined && known.attributes === attributes) return known.value
    this.#known.delete(path)
    const value = await read()
    // Changed while it was read: the value may be of either version, so it is not cached.
    if (attributes === undefined || attributes !== readAttributes(path)) return value
    this.#known.set(path, { attributes, value })
    const [oldest] = this.#known.keys()
    if (this.#known.size > this.#max && oldest !== undefined) this.#known.delete(oldest)
    return value
  }
}

/**
 * Undefined when the file cannot be read: the caller then reads it again, and gets the error. Synchronous: every create
 * and wake waits for it, and the threads of the pool may be busy with a disk.
 */
function readAttributes(path: string): string | undefined {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true })
    return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`
  } catch {
    return undefined
  }
}
