import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isLayerId, type LayerId } from '@dormouse/contracts'
import type { Layout } from '../host/layout.ts'
import type { Template } from '../template/template-store.ts'
import { checkTreeSums, makeTreeSums, type ScrubReading, type TreeDamage } from './scrub-program.ts'

/** A directory tree that never changes: a file layer, or the root file system of a template. */
export interface SealedTree {
  readonly root: string
  /** The file with the checksums of the tree; it has a checksum of its own. */
  readonly sums: string
}

/** Suffix of a checksum file that is being written. */
const UNFINISHED = '.new'
const OF_TEMPLATE = /^template-(?<hash>[^-]+)-(?<name>.+)$/

export function layerTree(layout: Layout, layer: LayerId): SealedTree {
  return { root: layout.layer(layer), sums: join(layout.sumsDir, layer) }
}

export function templateTree(layout: Layout, { name, hash, rootfs }: Template): SealedTree {
  return { root: rootfs, sums: join(layout.sumsDir, `template-${hash}-${name}`) }
}

/** Makes checksums of layers that have none. From then on `checkTree` notices a change of one bit. */
export async function makeLayerSums(
  layout: Layout,
  layers: readonly LayerId[],
  reading: ScrubReading,
): Promise<void> {
  for (const layer of layers) {
    const tree = layerTree(layout, layer)
    if (!existsSync(tree.sums)) await makeTreeSums(tree.root, tree.sums, reading)
  }
}

/**
 * Compares a tree with its checksums. When there are none, or they are damaged, makes them from the tree as it is now.
 * `damage` says in words what is wrong.
 */
export async function checkTree(
  { root, sums }: SealedTree,
  reading: ScrubReading,
): Promise<{ readBytes: number; damage: string | undefined }> {
  let checked = await checkTreeSums(root, sums, reading)
  if (checked.isUnknown) {
    checked = await makeTreeSums(root, sums, reading)
    // These checksums may come from the page cache; the disk may hold something else.
    if (checked.damage === undefined) checked = await checkTreeSums(root, sums, reading)
  }
  return { readBytes: checked.readBytes, damage: checked.damage && inWords(checked.damage) }
}

/** Removes the checksums of layers and template builds that no longer exist. */
export async function removeSums(layout: Layout): Promise<void> {
  for (const name of await readdir(layout.sumsDir)) {
    const of = name.endsWith(UNFINISHED) ? name.slice(0, -UNFINISHED.length) : name
    const build = OF_TEMPLATE.exec(of)?.groups
    const path = isLayerId(of)
      ? layout.layer(of)
      : join(layout.templatesDir, build?.['name'] ?? '-', build?.['hash'] ?? '-')
    if (!existsSync(path)) await rm(join(layout.sumsDir, name), { force: true })
  }
}

function inWords({ kind, what }: TreeDamage): string {
  if (kind === 'missing') return `${what} of its files or directories are missing`
  if (kind === 'added') return `${what} was added`
  return kind === 'unreadable' ? `${what} cannot be read` : `${what} is not as it was`
}
