import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const NEW = '.new-'

/** Objects of the depot that this host has read, as they are there. The least recently used go first. */
export class ChunkCache {
  readonly #directory: string
  readonly #maxBytes: number
  /** Sizes, the least recently used first. */
  readonly #sizes = new Map<string, number>()
  readonly #writing = new Set<string>()
  #bytes = 0

  private constructor(directory: string, maxBytes: number) {
    this.#directory = directory
    this.#maxBytes = maxBytes
  }

  static async open(directory: string, { maxBytes }: { maxBytes: number }): Promise<ChunkCache> {
    const cache = new ChunkCache(directory, maxBytes)
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const found: { name: string; size: number; usedAt: number }[] = []
    for (const name of await readdir(directory)) {
      if (name.startsWith(NEW)) await rm(join(directory, name), { force: true })
      const status = await stat(join(directory, name)).catch(() => undefined)
      if (status !== undefined) found.push({ name, size: status.size, usedAt: status.mtimeMs })
    }
    found.sort((one, other) => one.usedAt - other.usedAt)
    for (const { name, size } of found) cache.#add(name, size)
    await cache.#shrink()
    return cache
  }

  get bytes(): number {
    return this.#bytes
  }

  async find(name: string): Promise<Uint8Array | undefined> {
    const size = this.#sizes.get(name)
    if (size === undefined) return undefined
    this.#sizes.delete(name)
    this.#sizes.set(name, size)
    const path = join(this.#directory, name)
    const content = await readFile(path).catch(() => undefined)
    if (content === undefined) this.#forget(name)
    // The order outlives a restart.
    else void utimes(path, new Date(), new Date()).catch(() => {})
    return content
  }

  /** A copy that cannot be written, on a full disk for example, is only missing later. */
  async add(name: string, content: Uint8Array): Promise<void> {
    if (this.#sizes.has(name) || this.#writing.has(name) || content.length > this.#maxBytes) return
    this.#writing.add(name)
    const unfinished = join(this.#directory, `${NEW}${name}`)
    try {
      await writeFile(unfinished, content, { mode: 0o600 })
      await rename(unfinished, join(this.#directory, name))
      this.#add(name, content.length)
      await this.#shrink()
    } catch {
      await rm(unfinished, { force: true })
    } finally {
      this.#writing.delete(name)
    }
  }

  /** For a copy that is damaged. */
  async remove(name: string): Promise<void> {
    this.#forget(name)
    await rm(join(this.#directory, name), { force: true })
  }

  async #shrink(): Promise<void> {
    for (const name of this.#sizes.keys()) {
      if (this.#bytes <= this.#maxBytes) return
      await this.remove(name)
    }
  }

  #add(name: string, size: number): void {
    this.#sizes.set(name, size)
    this.#bytes += size
  }

  #forget(name: string): void {
    this.#bytes -= this.#sizes.get(name) ?? 0
    this.#sizes.delete(name)
  }
}
