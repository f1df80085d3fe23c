import { mkdir, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type LayerId, newLayerId } from '@dormouse/contracts'
import type { Layout, SnapshotPaths } from '../burrow/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { onImageThread } from '../image-thread/image-threads.ts'
import type { Manifest } from '../snapshot/manifest.ts'
import { CHAIN_MAX_LAYERS, chooseRun } from './choose-run.ts'
import { UNPUBLISHED } from './generation.ts'
import { mergeLayers, scanLayers } from './layer-program.ts'

export interface CompactLayers {
  readonly layout: Layout
  readonly paths: SnapshotPaths
  readonly manifest: Manifest
  /** The template's root file system. */
  readonly rootfs: string
  /** Reads all there is, so it is asked only when the answer matters. */
  readonly findUsedByOthers: () => Promise<ReadonlySet<LayerId>>
  readonly canClone: boolean
  readonly signal: AbortSignal
}

/**
 * Merges layers of a snapshot that has many; answers its new chain, undefined when it stays. Until a manifest names it, the new
 * layer is nobody's. Pre: nothing is collected meanwhile.
 */
export async function compactLayers(compact: CompactLayers): Promise<LayerId[] | undefined> {
  const { layout, manifest, canClone, signal } = compact
  const isOwn = (layer: LayerId) => dirname(layout.layer(layer)) === layout.layersDir
  const own = manifest.layers.filter(isOwn)
  if (own.length <= CHAIN_MAX_LAYERS) return undefined
  const ofTemplate = manifest.layers.filter((layer) => !isOwn(layer)).map((layer) => layout.layer(layer))
  const below = [...ofTemplate, compact.rootfs]
  const place = { layersDir: layout.layersDir, mountPoint: layout.rootMountPoint, signal }
  const weights = await scanLayers({ ...place, layers: own, below, ...(await knownPaths(compact.paths)) })
  const usedByOthers = await compact.findUsedByOthers()
  const chain = weights.map((weight, index) => ({
    ...weight,
    isShared: usedByOthers.has(own[index] as LayerId),
  }))
  const under = (to: number) => [...own.slice(to).map((layer) => layout.layer(layer)), ...below]
  const merge = async (run: Run, breaksLinks: boolean) => {
    const layers = own.slice(run.from, run.to)
    const made = await makeLayer(layout, (into) =>
      mergeLayers({ ...place, layers, below: under(run.to), into, breaksLinks }),
    )
    return made && [...own.slice(0, run.from), made, ...manifest.layers.slice(run.to)]
  }
  const run = chooseRun(chain, { canClone })
  if (run === undefined) return undefined
  const merged = await merge(run, false)
  if (merged !== undefined) return merged
  // Without the renamed directories, unless the chain is so long that there is no other way.
  const careful = chooseRun(
    chain.map((layer) => (layer.renames > 0 ? { ...layer, known: 1 } : layer)),
    { canClone },
  )
  return careful && merge(careful, true)
}

interface Run {
  readonly from: number
  readonly to: number
}

/** A new layer, filled by `fill`; undefined, and nothing is left, when that answers false or fails. */
async function makeLayer(
  layout: Layout,
  fill: (into: string) => Promise<boolean>,
): Promise<LayerId | undefined> {
  const made = newLayerId()
  const into = join(layout.layersDir, `${UNPUBLISHED}${made}`)
  await mkdir(into, { mode: 0o700 })
  try {
    if (!(await fill(into))) return undefined
    await rename(into, layout.layer(made))
    return made
  } finally {
    await removeTree(into)
  }
}

/** What the saved processes may know by its inode: files they have open or mapped, and origins of those they write to. */
async function knownPaths(paths: SnapshotPaths): Promise<{ openPaths: string[]; carriedPaths: string[] }> {
  const imagesDir = paths.images
  const openPaths = await onImageThread((thread) => thread.run('findOpenPaths', { imagesDir })).catch(
    (error: NodeJS.ErrnoException) => {
      // A snapshot of files has no images. What cannot be read might name any file.
      if (error.code !== 'ENOENT') throw error
      return []
    },
  )
  const carried = await readFile(paths.carried, 'utf8').catch(() => '')
  return {
    openPaths,
    carriedPaths: carried.split('\0').filter((path) => path !== ''),
  }
}
