import { existsSync } from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isSnapshotId, type SnapshotId } from '@dormouse/contracts'
import { hashFile, syncDirectory, writeDurably } from '@dormouse/engine-linux/for-engines'
import type { MicrovmHost } from '../microvm-host.ts'
import { formatManifest, type Manifest, readManifest } from '../storage/manifest.ts'

/**
 * Adds the checksum of its disk to a snapshot that exists already. It takes as long as the sandbox has written much, so
 * neither its guest nor its sleep waits for it. The next server does what this one has not finished.
 */
export class DiskSums implements AsyncDisposable {
  readonly #host: MicrovmHost
  readonly #waiting = new Map<SnapshotId, Promise<void>>()
  readonly #over = new AbortController()
  #last: Promise<void> = Promise.resolve()

  constructor(host: MicrovmHost) {
    this.#host = host
  }

  /** In the background, one disk at a time. Pre: the snapshot is on disk. */
  add(id: SnapshotId): void {
    if (this.#over.signal.aborted || this.#waiting.has(id)) return
    const added = this.#last.then(() => this.#sum(id)).finally(() => this.#waiting.delete(id))
    this.#waiting.set(id, added)
    this.#last = added
  }

  /** Adds those that an earlier server has left. */
  async addMissing(): Promise<void> {
    for (const id of (await readdir(this.#host.layout.snapshotsDir)).filter(isSnapshotId)) {
      const manifest = await this.#read(id)
      if (manifest !== undefined && this.#missing(manifest) !== undefined) this.add(id)
    }
  }

  /** Resolves when the snapshot has its sum, or cannot get one. */
  async settled(id: SnapshotId): Promise<void> {
    await this.#waiting.get(id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort()
    await this.#last
  }

  async #sum(id: SnapshotId): Promise<void> {
    const { signal } = this.#over
    try {
      signal.throwIfAborted()
      const manifest = await this.#read(id)
      const name = manifest && this.#missing(manifest)
      if (manifest === undefined || name === undefined) return
      const { dir, manifest: path } = this.#host.layout.snapshot(id)
      const sum = await hashFile(join(dir, name), signal)
      await replaceDurably(path, formatManifest({ ...manifest, sums: { ...manifest.sums, [name]: sum } }))
    } catch (error) {
      // It may have been deleted meanwhile.
      const isThere = existsSync(this.#host.layout.snapshot(id).manifest)
      if (isThere && !signal.aborted)
        this.#host.failures.report('upkeep', error, { snapshotId: id }, 'a disk has no checksum yet')
    }
  }

  #read(id: SnapshotId): Promise<Manifest | undefined> {
    return readManifest(this.#host.layout.snapshot(id).manifest, id).catch(() => undefined)
  }

  /** What the sandbox wrote since the snapshot before: the highest disk. */
  #missing({ id, base, sums }: Manifest): string | undefined {
    const name = `disks/${base.disks.at(-1)}`
    const isOwn = base.disks.length > 1 && existsSync(join(this.#host.layout.snapshot(id).dir, name))
    return isOwn && sums[name] === undefined ? name : undefined
  }
}

/** The file has the old text or the new one, whatever happens. */
async function replaceDurably(path: string, text: string): Promise<void> {
  const draft = `${path}.new`
  await rm(draft, { force: true })
  await writeDurably(draft, text)
  await rename(draft, path)
  await syncDirectory(dirname(path))
}
