import { existsSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { FailureLog } from '../host/failure-log.ts'
import type { Layout } from '../host/layout.ts'
import { syncDirectory } from '../host/sync-files.ts'
import { PageWorker } from '../image/page-worker.ts'
import { readManifest } from './manifest.ts'
import { syncLayer } from './publish-snapshot.ts'

/** Prefix of the marks. The rest of the name is the snapshot's id and the boot in which it was made. */
const MARK = '.unsynced-'
const BOOT_ID = '/proc/sys/kernel/random/boot_id'
const RETRY_MS = 1_000
const RETRY_MAX_MS = 60_000

/**
 * Snapshots that are complete but may not be on disk yet: burrows run from them, and a power cut may undo them. Each
 * has a mark, an empty file beside it. The mark is made before the snapshot gets its name, and file systems do not
 * reorder names: where the name survived a power cut, so did the mark.
 */
export class UnsyncedSnapshots implements AsyncDisposable {
  readonly #layout: Layout
  readonly #failures: FailureLog
  readonly #syncs = new Map<SnapshotId, Promise<void>>()
  readonly #closing = new AbortController()

  constructor(layout: Layout, failures: FailureLog) {
    this.#layout = layout
    this.#failures = failures
  }

  /** Call before the snapshot is published. */
  async mark(id: SnapshotId): Promise<void> {
    await writeFile(this.#pathOf(id, await readBootId()), '', { mode: 0o600 })
  }

  /** For a snapshot that was not published after all. */
  async unmark(id: SnapshotId): Promise<void> {
    await rm(this.#pathOf(id, await readBootId()), { force: true })
  }

  /** Writes a published snapshot to the disk in the background, with retries. */
  start(id: SnapshotId): void {
    void this.#retry(id)
  }

  /** Post: the snapshot is on disk, or deleted. Call before something durable refers to its layers. */
  async require(id: SnapshotId | undefined): Promise<void> {
    if (id !== undefined && existsSync(this.#pathOf(id, await readBootId()))) await this.#sync(id)
  }

  /**
   * Handles the marks of earlier engines: writes snapshots of this boot to the disk, and returns those that an earlier
   * boot left unfinished. Their content cannot be trusted; the caller removes them, then calls `forget`.
   */
  async settle(): Promise<SnapshotId[]> {
    const bootId = await readBootId()
    const undone: SnapshotId[] = []
    for (const name of await readdir(this.#layout.snapshotsDir)) {
      const id = idOf(name)
      if (id === undefined) continue
      if (name.endsWith(bootId)) await this.#sync(id)
      else undone.push(id)
    }
    return undone
  }

  async forget(id: SnapshotId): Promise<void> {
    for (const name of await readdir(this.#layout.snapshotsDir))
      if (idOf(name) === id) await rm(join(this.#layout.snapshotsDir, name))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.allSettled(this.#syncs.values())
  }

  async #retry(id: SnapshotId): Promise<void> {
    const { signal } = this.#closing
    for (let pauseMs = RETRY_MS; !signal.aborted; pauseMs = Math.min(pauseMs * 2, RETRY_MAX_MS)) {
      try {
        await this.#sync(id)
        return
      } catch (error) {
        const what = 'the snapshot of a fork is not on disk yet'
        this.#failures.report('sync', error, { snapshotId: id }, what)
      }
      // Rejects when the engine closes.
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  /** Callers share one attempt. */
  #sync(id: SnapshotId): Promise<void> {
    const running = this.#syncs.get(id)
    if (running !== undefined) return running
    const sync = this.#write(id).finally(() => this.#syncs.delete(id))
    this.#syncs.set(id, sync)
    return sync
  }

  async #write(id: SnapshotId): Promise<void> {
    const { snapshotsDir } = this.#layout
    const { dir, manifest: path } = this.#layout.snapshot(id)
    if (existsSync(dir)) {
      const { parent, layers } = await readManifest(path)
      await this.require(parent)
      await using worker = new PageWorker()
      // Lower layers belong to snapshots before it.
      const [top] = layers
      if (top !== undefined) await syncLayer(worker, this.#layout.layer(top))
      await worker.sync([dir])
    }
    await syncDirectory(snapshotsDir)
    await this.unmark(id)
    await syncDirectory(snapshotsDir)
  }

  #pathOf(id: SnapshotId, bootId: string): string {
    return join(this.#layout.snapshotsDir, `${MARK}${id}-${bootId}`)
  }
}

function idOf(name: string): SnapshotId | undefined {
  const [, id = ''] = /^\.unsynced-(sn-[^-]+)-/.exec(name) ?? []
  return isSnapshotId(id) ? id : undefined
}

let bootId: Promise<string> | undefined

function readBootId(): Promise<string> {
  bootId ??= readFile(BOOT_ID, 'utf8').then((text) => text.trim())
  return bootId
}
