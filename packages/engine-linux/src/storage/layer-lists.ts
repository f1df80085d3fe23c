import { statSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { settleAll } from '@dormouse/async'
import type { LayerId, SnapshotId } from '@dormouse/contracts'
import type { Layout } from '../host/layout.ts'
import { findLayers } from './manifest.ts'
import { manifestVersion } from './manifest-version.ts'

/** More would only wait for each other, and there is a limit to open files. */
const READ_AT_ONCE = 8
/** Looked at before other work has its turn: a look takes some microseconds. */
const LOOK_AT_ONCE = 200

interface Known {
  readonly version: string
  readonly layers: readonly LayerId[]
}

/**
 * The lists of layers of all snapshots. A manifest is replaced as a whole, so one that has not changed is not read
 * again: a collection of layers asks for all of them, and there may be thousands.
 */
export class LayerLists {
  readonly #layout: Layout
  #known = new Map<SnapshotId, Known>()

  constructor(layout: Layout) {
    this.#layout = layout
  }

  /** Snapshots that were deleted meanwhile have no layers. Undefined when a list cannot be read. */
  async all(ids: readonly SnapshotId[]): Promise<ReadonlySet<LayerId> | undefined> {
    const known = new Map<SnapshotId, Known>()
    const changed: { id: SnapshotId; version: string }[] = []
    for (const [index, id] of ids.entries()) {
      if (index % LOOK_AT_ONCE === LOOK_AT_ONCE - 1) await nextTurn()
      const version = manifestVersion(this.#layout.snapshot(id).manifest)
      const before = this.#known.get(id)
      if (before !== undefined && before.version === version) known.set(id, before)
      else changed.push({ id, version })
    }
    const isRead = await this.#read(changed, known)
    this.#known = known
    if (!isRead) return undefined
    const used = new Set<LayerId>()
    for (const { layers } of known.values()) for (const layer of layers) used.add(layer)
    return used
  }

  async #read(
    changed: readonly { id: SnapshotId; version: string }[],
    known: Map<SnapshotId, Known>,
  ): Promise<boolean> {
    // One string for each layer, however many snapshots have it.
    const names = new Map<LayerId, LayerId>()
    for (const { layers } of known.values()) for (const layer of layers) names.set(layer, layer)
    const read =
      ({ id, version }: { id: SnapshotId; version: string }) =>
      async () => {
        const layers = await findLayers(this.#layout.snapshot(id).manifest)
        if (layers === undefined) return !this.#exists(id)
        known.set(id, { version, layers: layers.map((layer) => names.get(layer) ?? remember(names, layer)) })
        return true
      }
    const results = await settleAll(changed.map(read), READ_AT_ONCE)
    return results.every((result) => result.status === 'fulfilled' && result.value)
  }

  #exists(id: SnapshotId): boolean {
    return statSync(this.#layout.snapshot(id).dir, { throwIfNoEntry: false }) !== undefined
  }
}

function remember(names: Map<LayerId, LayerId>, layer: LayerId): LayerId {
  names.set(layer, layer)
  return layer
}
