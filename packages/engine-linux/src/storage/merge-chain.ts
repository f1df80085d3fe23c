import { mkdir, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type LayerId, newLayerId } from '@dormouse/contracts'
import type { Layout, SnapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import type { ImageThreads } from '../image-thread/image-threads.ts'
import { CHAIN_MAX_LAYERS, chooseLayersToMerge, type LayerRange } from './choose-layers-to-merge.ts'
import { UNPUBLISHED } from './generation.ts'
import { mergeLayers, scanLayers } from './layer-program.ts'
import type { Manifest } from './manifest.ts'

export interface MergeChain {
  readonly layout: Layout
  readonly paths: SnapshotPaths
  readonly manifest: Manifest
  /** The template's root file system. */
  readonly rootfs: string
  /** Reads every manifest, so it is called only when the result matters. */
  readonly findUsedByOthers: () => Promise<ReadonlySet<LayerId>>
  readonly imageThreads: ImageThreads
  readonly canClone: boolean
  readonly signal: AbortSignal
}

/**
 * Merges layers of a snapshot that has many. Returns the new chain, or undefined when it stays. Until a manifest names
 * it, nothing refers to the new layer. Pre: no layer is collected meanwhile.
 */
export async function mergeChain(options: MergeChain): Promise<LayerId[] | undefined> {
  const { layout, manifest, canClone, signal } = options
  const isOwn = (layer: LayerId) => dirname(layout.layer(layer)) === layout.layersDir
  const own = manifest.layers.filter(isOwn)
  if (own.length <= CHAIN_MAX_LAYERS) return undefined
  const ofTemplate = manifest.layers.filter((layer) => !isOwn(layer)).map((layer) => layout.layer(layer))
  const below = [...ofTemplate, options.rootfs]
  const place = { layersDir: layout.layersDir, mountPoint: layout.rootMountPoint, signal }
  const weights = await scanLayers({ ...place, layers: own, below, ...(await knownPaths(options)) })
  const usedByOthers = await options.findUsedByOthers()
  const chain = weights.map((weight, index) => ({
    ...weight,
    isShared: usedByOthers.has(own[index] as LayerId),
  }))
  const under = (to: number) => [...own.slice(to).map((layer) => layout.layer(layer)), ...below]
  const merge = async (range: LayerRange, breaksLinks: boolean) => {
    const layers = own.slice(range.from, range.to)
    const made = await makeLayer(layout, (into) =>
      mergeLayers({ ...place, layers, below: under(range.to), into, breaksLinks }),
    )
    return made && [...own.slice(0, range.from), made, ...manifest.layers.slice(range.to)]
  }
  const range = chooseLayersToMerge(chain, { canClone })
  if (range === undefined) return undefined
  const merged = await merge(range, false)
  if (merged !== undefined) return merged
  // Leaves out layers with renamed directories, unless the chain is too long for that.
  const careful = chooseLayersToMerge(
    chain.map((layer) => (layer.renames > 0 ? { ...layer, known: 1 } : layer)),
    { canClone },
  )
  return careful && merge(careful, true)
}

/** Makes a layer that `fill` fills. Undefined, and nothing is left, when `fill` returns false. */
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

/**
 * Files that the saved processes may know by inode: those they have open or mapped, and the origins of those they write
 * to.
 */
async function knownPaths({
  paths,
  imageThreads,
}: MergeChain): Promise<{ openPaths: string[]; carriedPaths: string[] }> {
  const imagesDir = paths.images
  const reading = imageThreads.use((thread) => thread.run('findOpenPaths', { imagesDir }))
  // A snapshot of kind `files` has no images. Images that cannot be read may name any file.
  const openPaths = await reading.catch(unlessAbsent)
  // Most snapshots have no such list.
  const carried = await readFile(paths.carried, 'utf8').catch(unlessAbsent)
  return {
    openPaths: openPaths ?? [],
    carriedPaths: carried?.split('\0').filter((path) => path !== '') ?? [],
  }
}

function unlessAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
