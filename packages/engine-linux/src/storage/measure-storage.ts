import { existsSync, type Stats } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { LayerId, SnapshotId } from '@dormouse/contracts'
import type { DiskUse, Measurement, StopAt, StorageReport } from '@dormouse/engine'
import type { FailureLog } from '../host/failure-log.ts'
import type { Layout } from '../host/layout.ts'
import { TreeMeasurement } from '../host/tree-measurement.ts'
import { generationPaths } from './generation.ts'
import { type Part, PartsMeasurement } from './parts-measurement.ts'
import type { SnapshotStore } from './snapshot-store.ts'

const BLOCK_BYTES = 512
/** Only a bound: no caller waits for a report on storage. */
const LAYER_TIMEOUT_MS = 600_000

/** Measures the disk space of snapshots. Layers never change, so each is measured once. */
export class StorageMeter {
  readonly #layout: Layout
  readonly #store: SnapshotStore
  readonly #failures: FailureLog
  readonly #layerUse = new Map<LayerId, DiskUse>()

  constructor(layout: Layout, store: SnapshotStore, failures: FailureLog) {
    this.#layout = layout
    this.#store = store
    this.#failures = failures
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

  /** Measures the upper directory and the layers, except layers of templates. */
  written(upper: string, layers: readonly LayerId[], stopAt: StopAt): Measurement {
    const parts: Part[] = [{ path: upper }]
    for (const id of layers) {
      const path = this.#layout.layer(id)
      if (!path.startsWith(this.#layout.templateLayersDir)) parts.push({ path, layer: id })
    }
    return new PartsMeasurement(parts, stopAt, this.#layerUse)
  }

  async #partsOf(id: SnapshotId, generation: number | undefined, layers: readonly LayerId[]) {
    const paths = generationPaths(this.#layout.snapshot(id).dir, generation)
    const parts: { key: string; bytes: number }[] = []
    for (const directory of [paths.images, paths.memory]) {
      // Empty for a snapshot without processes, and for one that was deleted meanwhile.
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
    const known = this.#layerUse.get(id)
    if (known !== undefined) return known.bytes
    using measurement = new TreeMeasurement(path)
    const use = await measurement.advance(LAYER_TIMEOUT_MS).catch((error: unknown) => {
      // The layer may be collected meanwhile; then it takes no space.
      if (existsSync(path))
        this.#failures.report('measurement', error, { layer: id }, 'a layer was not measured')
      return undefined
    })
    if (use !== undefined) this.#layerUse.set(id, use)
    return use?.bytes ?? 0
  }

  #forget(used: ReadonlySet<LayerId>): void {
    for (const id of this.#layerUse.keys()) if (!used.has(id)) this.#layerUse.delete(id)
  }
}

function allocated({ blocks }: Stats): number {
  return blocks * BLOCK_BYTES
}
