import type { LayerWeight } from './layer-program.ts'

const MB = 1024 ** 2

/** Shorter chains stay as they are: a lookup through all layers is still a small part of a system call. */
export const CHAIN_MAX_LAYERS = 16
/** Longer chains are worth disk space: layers that others share, and large ones, are copied as well. */
const LONG_CHAIN_LAYERS = 32
/**
 * In longer chains inode numbers of open files may change, and going to sleep waits for the merge. CRIU reads lines of
 * mountinfo up to 4096 bytes, enough for about 90 layers: with more the sandbox could not be saved at all.
 */
export const LONGEST_CHAIN_LAYERS = 56
/** Rewriting a layer this large for a few small ones beside it would write more than the sandbox itself does. */
const HEAVY_BYTES = 64 * MB
const MERGE_MAX_BYTES = 4 * HEAVY_BYTES
/** While the chain is short, merging fewer layers is not worth a new version of the snapshot. */
const MERGE_MIN_LAYERS = 4

export interface ChainLayer extends LayerWeight {
  /** Another snapshot, or a burrow, uses it too: a merge would be a second copy. */
  readonly isShared: boolean
}

/** Neighbouring layers of a chain: from index `from` up to, but not including, `to`. */
export interface LayerRange {
  readonly from: number
  readonly to: number
}

/**
 * Chooses the layers of a chain, top first, to merge into one. Never the top one: it has all files that are open for
 * writing, because overlayfs copies a file up when it is opened, and these files have to keep their inodes.
 */
export function chooseLayersToMerge(
  chain: readonly ChainLayer[],
  { canClone }: { canClone: boolean },
): LayerRange | undefined {
  if (chain.length <= CHAIN_MAX_LAYERS) return undefined
  const isLong = chain.length > LONG_CHAIN_LAYERS
  const maxReluctance = chain.length > LONGEST_CHAIN_LAYERS ? 2 : isLong ? 1 : 0
  const maxBytes = isLong || canClone ? Number.POSITIVE_INFINITY : MERGE_MAX_BYTES
  let best = { from: 0, to: 0 }
  for (let from = 1; from < chain.length; from++) {
    let to = from
    let bytes = 0
    for (; to < chain.length; to++) {
      const layer = chain[to] as ChainLayer
      bytes += layer.sizeBytes
      if (reluctance(layer, canClone) > maxReluctance || bytes > maxBytes) break
    }
    if (to - from > best.to - best.from) best = { from, to }
  }
  return best.to - best.from >= (isLong ? 2 : MERGE_MIN_LAYERS) ? best : undefined
}

function reluctance({ known, sizeBytes, isShared }: ChainLayer, canClone: boolean): 0 | 1 | 2 {
  // A process that has a file open may remember its inode number, and a copy has another.
  if (known > 0) return 2
  return isShared || (sizeBytes > HEAVY_BYTES && !canClone) ? 1 : 0
}
