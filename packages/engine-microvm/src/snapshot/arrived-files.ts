import { type FileHandle, link, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { KeyedMutex } from '@dormouse/async'
import { DormouseError, newSnapshotId } from '@dormouse/contracts'
import type { SparseFile } from '@dormouse/engine'
import { runCommandOrFail, syncDirectory } from '@dormouse/engine-linux/for-engines'

/** Chunks that are on their way at once. */
const AHEAD = 16
const UNFINISHED = '.new-'

export interface ArrivingDisk {
  /** Equal keys mean equal files. */
  readonly key: string
  readonly file: SparseFile
  readonly modifiedNs: bigint | undefined
}

/**
 * Files of snapshots of other hosts: disks and memory files that several snapshots share. Snapshots have hard links to
 * them; one that no snapshot has any more is removed.
 */
export class ArrivedFiles {
  readonly #dir: string
  readonly #turns = new KeyedMutex()
  #uses = 0
  #removing: Promise<void> = Promise.resolve()

  constructor(dir: string) {
    this.#dir = dir
  }

  /** While `work` runs, no file goes. */
  async use<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#uses += 1
    try {
      await this.#removing
      return await work()
    } finally {
      this.#uses -= 1
      await this.removeUnused()
    }
  }

  /** Links `path` to a file that has arrived. False when there is none. */
  async link(key: string, path: string): Promise<boolean> {
    return linkOr(this.#pathOf(key), path, 'ENOENT')
  }

  /** Shares a complete file of a snapshot with the next ones. Pre: its content is on disk. */
  async add(key: string, path: string): Promise<void> {
    if (await linkOr(path, this.#pathOf(key), 'EEXIST')) await syncDirectory(this.#dir)
  }

  /** Post: `path` is a link to the file, which is on disk. Fetches it unless another snapshot has brought it. */
  async put({ key, file, modifiedNs }: ArrivingDisk, path: string): Promise<void> {
    const own = this.#pathOf(key)
    await this.#turns.run(key, async () => {
      if ((await stat(own).catch(() => undefined)) !== undefined) return
      const work = join(this.#dir, `${UNFINISHED}${newSnapshotId()}`)
      try {
        await fetchFile(work, file, 0o644)
        if (modifiedNs !== undefined) await setModified(work, modifiedNs)
        await rename(work, own)
        await syncDirectory(this.#dir)
      } catch (error) {
        await rm(work, { force: true })
        throw error
      }
    })
    await link(own, path)
  }

  /** Also removes what an earlier server has left unfinished. A failure only costs disk space until the next time. */
  removeUnused(): Promise<void> {
    this.#removing = this.#removing.then(() => this.#remove()).catch(() => {})
    return this.#removing
  }

  #pathOf(key: string): string {
    return join(this.#dir, key.replaceAll('/', ','))
  }

  async #remove(): Promise<void> {
    for (const name of await readdir(this.#dir)) {
      if (this.#uses > 0) return
      const path = join(this.#dir, name)
      const links = name.startsWith(UNFINISHED) ? 1 : (await stat(path).catch(() => undefined))?.nlink
      if (links === 1 && this.#uses === 0) await rm(path, { force: true })
    }
  }
}

/** False when the link fails with this error. */
async function linkOr(existing: string, path: string, code: string): Promise<boolean> {
  try {
    await link(existing, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === code) return false
    throw error
  }
}

/** Writes a whole file. It is on disk after this, but for its name. */
export async function fetchFile(path: string, file: SparseFile, mode: number): Promise<void> {
  const handle = await open(path, 'wx', mode)
  try {
    await handle.chmod(mode)
    await handle.truncate(file.sizeBytes)
    await writeExtents(handle, file)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function writeExtents(handle: FileHandle, file: SparseFile): Promise<void> {
  const extents = [...file.extents]
  let [offset, leftBytes] = extents.shift() ?? [0, 0]
  for await (const chunk of chunksOf(file)) {
    for (let at = 0; at < chunk.length; ) {
      if (leftBytes === 0) [offset, leftBytes] = extents.shift() ?? [0, 0]
      const bytes = Math.min(leftBytes, chunk.length - at)
      if (bytes === 0 || offset + bytes > file.sizeBytes)
        throw damaged('a file has other bytes than its list says')
      await handle.write(chunk, at, bytes, offset)
      at += bytes
      offset += bytes
      leftBytes -= bytes
    }
  }
  if (leftBytes > 0 || extents.length > 0) throw damaged('a file is shorter than its list says')
}

/** In order, some of them fetched ahead. */
async function* chunksOf({ extents, chunkBytes, load }: SparseFile): AsyncGenerator<Uint8Array> {
  const count = Math.ceil(extents.reduce((sum, [, bytes]) => sum + bytes, 0) / chunkBytes)
  const loading: Promise<Uint8Array>[] = []
  for (let next = 0; next < count || loading.length > 0; ) {
    for (; next < count && loading.length < AHEAD; next += 1) {
      const chunk = load(next)
      // Awaited in order below; until then a rejection is not unhandled.
      chunk.catch(() => {})
      loading.push(chunk)
    }
    yield (await loading.shift()) as Uint8Array
  }
}

async function setModified(path: string, ns: bigint): Promise<void> {
  const time = `@${ns / 1_000_000_000n}.${String(ns % 1_000_000_000n).padStart(9, '0')}`
  await runCommandOrFail({ argv: ['touch', '--no-create', '--date', time, path] }, 'finishing a disk')
}

export function damaged(reason: string): DormouseError {
  return new DormouseError('snapshot_unusable', `The snapshot cannot be restored: ${reason}.`, {
    details: { reason, damaged: true },
  })
}
