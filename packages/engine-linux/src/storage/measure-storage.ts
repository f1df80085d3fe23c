import { existsSync, type Stats } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { LayerId, SnapshotId } from '@dormouse/contracts'
import type { DiskUse, Measurement, StopAt, StorageReport } from '@dormouse/engine'
import { arrivingDir } from '../arrival/arriving-files.ts'
import type { FailureLog } from '../host/failure-log.ts'
import type { Layout } from '../host/layout.ts'
import { TreeMeasurement } from '../host/tree-measurement.ts'
import { generationPaths } from './generation.ts'
import { readManifest } from './manifest.ts'
import { manifestVersion } from './manifest-version.ts'
import { type Part, PartsMeasurement } from './parts-measurement.ts'
import type { SnapshotStore } from './snapshot-store.ts'

const BLOCK_BYTES = 512
/** Only a bound: no caller waits for a report on storage. */
const LAYER_TIMEOUT_MS = 600_000

/** Looked at before other work has its turn: a look takes some microseconds. */
const LOOK_AT_ONCE = 200

/** Something that several snapshots may share: a memory file or a layer. */
interface SharedPart {
  readonly bytes: number
  users: number
}

interface KnownSnapshot {
  /** Empty: something of it could not be measured. */
  readonly version: string
  readonly ownBytes: number
  readonly parts: readonly SharedPart[]
}

/**
 * Measures the disk space of snapshots. Layers never change, so each is measured once, and a snapshot is measured again
 * only when its manifest has changed: there may be thousands.
 */
export class StorageMeter {
  readonly #layout: Layout
  readonly #store: SnapshotStore
  readonly #failures: FailureLog
  readonly #layerUse = new Map<LayerId, DiskUse>()
  #snapshots = new Map<SnapshotId, KnownSnapshot>()
  /** One object for each, however many snapshots have it. */
  #parts = new Map<string, SharedPart>()
  #last: { readonly mtimeNs: bigint; readonly report: StorageReport } | undefined

  constructor(layout: Layout, store: SnapshotStore, failures: FailureLog) {
    this.#layout = layout
    this.#store = store
    this.#failures = failures
  }

  async measure(): Promise<StorageReport> {
    // Every snapshot that comes, goes or gets a new version makes or removes a name in this directory.
    const { mtimeNs } = await stat(this.#layout.snapshotsDir, { bigint: true })
    if (this.#last?.mtimeNs === mtimeNs) return this.#last.report
    const known = new Map<SnapshotId, KnownSnapshot>()
    for (const [index, id] of (await this.#store.ids()).entries()) {
      if (index % LOOK_AT_ONCE === LOOK_AT_ONCE - 1) await nextTurn()
      const found = await this.#look(id)
      if (found !== undefined) known.set(id, found)
    }
    this.#snapshots = known
    const report = this.#report()
    const isWhole = [...known.values()].every(({ version }) => version !== '')
    this.#last = isWhole ? { mtimeNs, report } : undefined
    return report
  }

  #report(): StorageReport {
    for (const part of this.#parts.values()) part.users = 0
    for (const { parts } of this.#snapshots.values()) for (const part of parts) part.users = 0
    for (const { parts } of this.#snapshots.values()) for (const part of parts) part.users += 1
    for (const [key, { users }] of this.#parts) if (users === 0) this.#parts.delete(key)
    for (const id of this.#layerUse.keys()) if (!this.#parts.has(id)) this.#layerUse.delete(id)
    const snapshots = new Map<SnapshotId, number>()
    let totalBytes = 0
    for (const [id, { ownBytes, parts }] of this.#snapshots) {
      let share = ownBytes
      for (const { bytes, users } of parts) share += bytes / users
      snapshots.set(id, share)
      totalBytes += share
    }
    return { totalBytes: Math.round(totalBytes), snapshots }
  }

  /** Undefined for a snapshot that was deleted meanwhile, is damaged or has another format. */
  async #look(id: SnapshotId): Promise<KnownSnapshot | undefined> {
    const { dir, manifest: path } = this.#layout.snapshot(id)
    const version = manifestVersion(path)
    const known = this.#snapshots.get(id)
    if (known !== undefined && known.version === version) return known
    const manifest = await readManifest(path).catch(() => undefined)
    if (manifest === undefined) return undefined
    const { images, memory } = generationPaths(dir, manifest.generation)
    // Memory that arrives grows without a new manifest.
    let isWhole = !existsSync(arrivingDir(dir))
    let ownBytes = 0
    for (const file of await statAll(images)) ownBytes += allocated(file)
    const parts: SharedPart[] = []
    // Memory files are shared by hard links.
    for (const file of await statAll(memory))
      parts.push(this.#part(`${file.dev}:${file.ino}`, allocated(file)))
    for (const layer of manifest.layers) {
      const layerPath = this.#layout.layer(layer)
      // Layers of templates belong to the host.
      if (layerPath.startsWith(this.#layout.templateLayersDir)) continue
      const bytes = await this.#layer(layer, layerPath)
      if (bytes === undefined) isWhole = false
      else parts.push(this.#part(layer, bytes))
    }
    return { version: isWhole ? version : '', ownBytes, parts }
  }

  #part(key: string, bytes: number): SharedPart {
    const known = this.#parts.get(key)
    if (known?.bytes === bytes) return known
    const part = { bytes, users: 0 }
    this.#parts.set(key, part)
    return part
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

  async #layer(id: LayerId, path: string): Promise<number | undefined> {
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
    return use?.bytes
  }
}

/** Empty for a snapshot without processes, and for one that was deleted meanwhile. */
async function statAll(directory: string): Promise<Stats[]> {
  const names = await readdir(directory).catch(() => [])
  const found = await Promise.all(names.map((name) => stat(join(directory, name)).catch(() => undefined)))
  return found.filter((file) => file !== undefined)
}

function allocated({ blocks }: Stats): number {
  return blocks * BLOCK_BYTES
}
