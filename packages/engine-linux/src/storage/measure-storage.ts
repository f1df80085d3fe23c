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

  async written(upper: string, layers: readonly LayerId[]): Promise<number> {
    let bytes = (await treeBytes(upper)) ?? 0
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
    if (bytes !== undefined) this.#layerBytes.set(id, bytes)
    return bytes ?? 0
  }

  #forget(used: ReadonlySet<LayerId>): void {
    for (const id of this.#layerBytes.keys()) if (!used.has(id)) this.#layerBytes.delete(id)
  }
}

/**
 * What a sandbox wrote: it may be millions of names in one directory, deeper than any path can be, and change while it is read. du(1)
 * copes with all of that, follows no link and leaves no file system. Undefined when it could not tell.
 */
async function treeBytes(root: string): Promise<number | undefined> {
  const { stdout } = await runCommand({
    argv: ['du', '--summarize', '--one-file-system', '--block-size=1', '--', root],
  })
  // Files that go away meanwhile make it complain, and the sum is as good without them.
  const sum = /^\d+/.exec(stdout)?.[0]
  return sum === undefined ? undefined : Number(sum)
}

function allocated({ blocks }: Stats): number {
  return blocks * BLOCK_BYTES
}
