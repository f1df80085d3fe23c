import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { isBurrowId, type LayerId } from '@dormouse/contracts'
import { findRecord } from '../burrow/burrow-record.ts'
import type { Layout } from '../host/layout.ts'
import { findLayerBeingSaved } from './save-intent.ts'

/**
 * The layers that burrows on disk use. Undefined when a burrow is being made and has no record yet: it may use any
 * layer. Throws when a record cannot be read.
 */
export async function findLayersOfBurrows(layout: Layout): Promise<Set<LayerId> | undefined> {
  const used = new Set<LayerId>()
  for (const name of (await readdir(layout.burrowsDir)).filter(isBurrowId)) {
    const paths = layout.burrow(name)
    const record = await findRecord(paths.record)
    const isUnknown = record === undefined && existsSync(paths.dir) && !existsSync(paths.spareMark)
    if (isUnknown) return undefined
    for (const layer of record?.layers ?? []) used.add(layer)
    const beingSaved = await findLayerBeingSaved(paths)
    if (beingSaved !== undefined) used.add(beingSaved)
  }
  return used
}
