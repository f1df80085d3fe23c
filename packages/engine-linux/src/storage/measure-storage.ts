import type { Stats } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { LayerId, SnapshotId } from '@dormouse/contracts'
import type { StorageReport } from '@dormouse/engine'
import type { Layout } from '../burrow/layout.ts'
import { runCommand } from '../host/run-command.ts'
import type { SnapshotStore } from '../snapshot/snapshot-store.ts'
import { generationPaths } from './generation.ts'

const BLOCK_BYTES = 512
/** `stat` many at once, but not so many that a wake would have to wait for the thread pool. */
const AT_ONCE = 2

/** What snapshots take on disk. Layers never change, so each is walked once. */
export class StorageMeter {
  readonly #layout: Layout
  readonly #store: SnapshotStore
  readonly #layerBytes = new Map<LayerId, number>()

  constructor(layout: Layout, store: SnapshotStore) {
    this.#layout = layout
    this.#store = store
  }

  async measure(): Promise<StorageReport> {
    const manifests = await this.#store.list()
    const parts = new Map<SnapshotId, { key: string; bytes: number }[]>()
    const users = new Map<string, number>()
    for (const manifest of manifests) {
      const found = await this.#partsOf(manifest.id, manifest.generation, manifest.layers)
      parts.set(manifest.id, found)
      for (const { key } of found) users.set(key, (users.get(key) ?? 0) + 1)
    }
    const snapshots = new Map<SnapshotId, number>()
    let totalBytes = 0
    for (const [id, found] of parts) {
      let share = 0
      for (const { key, bytes } of found) share += bytes / (users.get(key) ?? 1)
      snapshots.set(id, share)
      totalBytes += share
    }
    this.#forget(new Set(manifests.flatMap(({ layers }) => layers)))
    return { totalBytes: Math.round(totalBytes), snapshots }
  }

  /** The sandbox can change its upper directory while it is read: `du` follows no link and leaves no file system. */
  async written(upper: string, layers: readonly LayerId[]): Promise<number> {
    const { stdout } = await runCommand({
      argv: ['du', '--summarize', '--one-file-system', '--block-size=1', '--', upper],
    })
    // Files that go away meanwhile make it complain, and the sum is as good without them.
    let bytes = Number(/^\d+/.exec(stdout)?.[0] ?? 0)
    for (const layer of layers) {
      const path = this.#layout.layer(layer)
      if (!path.startsWith(this.#layout.templateLayersDir)) bytes += await this.#layer(layer, path)
    }
    return bytes
  }

  async #partsOf(id: SnapshotId, generation: number | undefined, layers: readonly LayerId[]) {
    const paths = generationPaths(this.#layout.snapshot(id).dir, generation)
    const parts: { key: string; bytes: number }[] = []
    for (const directory of [paths.images, paths.memory]) {
      for (const name of await readdir(directory).catch(() => [])) {
        const file = await stat(join(directory, name)).catch(() => undefined)
        // Memory files are shared by hard links.
        if (file !== undefined) parts.push({ key: `${file.dev}:${file.ino}`, bytes: allocated(file) })
      }
    }
    for (const layer of layers) {
      const path = this.#layout.layer(layer)
      // Layers of templates belong to the host.
      if (path.startsWith(this.#layout.templateLayersDir)) continue
      parts.push({ key: layer, bytes: await this.#layer(layer, path) })
    }
    return parts
  }

  async #layer(id: LayerId, path: string): Promise<number> {
    const known = this.#layerBytes.get(id)
    if (known !== undefined) return known
    const bytes = await treeBytes(path)
    this.#layerBytes.set(id, bytes)
    return bytes
  }

  #forget(used: ReadonlySet<LayerId>): void {
    for (const id of this.#layerBytes.keys()) if (!used.has(id)) this.#layerBytes.delete(id)
  }
}

/** Without following links, and on one file system by construction: layers hold no mounts. */
async function treeBytes(root: string): Promise<number> {
  const waiting = [root]
  const seen = new Set<number>()
  let bytes = 0
  const walk = async () => {
    for (let directory = waiting.pop(); directory !== undefined; directory = waiting.pop()) {
      const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
      for (const entry of entries) {
        const path = join(directory, entry.name)
        if (entry.isDirectory()) waiting.push(path)
        else if (entry.isFile()) {
          const file = await stat(path).catch(() => undefined)
          if (file === undefined || (file.nlink > 1 && seen.has(file.ino))) continue
          seen.add(file.ino)
          bytes += allocated(file)
        }
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, walk))
  return bytes
}

function allocated({ blocks }: Stats): number {
  return blocks * BLOCK_BYTES
}
