import type { LayerWeight } from './layer-program.ts'

const MB = 1024 ** 2

/** Chains up to this are left alone: a lookup that goes through all of them is still a small part of a system call. */
export const CHAIN_MAX_LAYERS = 16
/** Beyond it, disk is spent: what others stand on and what is large is copied as well. */
const LONG_CHAIN_LAYERS = 32
/**
 * Beyond it, inode numbers of open files may change, and a sandbox that sleeps waits for the merge. CRIU reads lines of mountinfo of
 * 4096 bytes at most, which ends at about 90 layers: then the sandbox could not be saved at all.
 */
export const LONGEST_CHAIN_LAYERS = 56
/** Rewriting a layer this large again and again, for a few small ones beside it, would be more than the sandbox itself writes. */
const HEAVY_BYTES = 64 * MB
const RUN_MAX_BYTES = 4 * HEAVY_BYTES
/** Fewer are not worth a new version of the snapshot while the chain is short. */
const RUN_MIN_LAYERS = 4

export interface ChainLayer extends LayerWeight {
  /** Another snapshot, or a burrow, stands on it too: a merge would be a second copy. */
  readonly isShared: boolean
}

/**
 * Which layers of a chain, top first, to merge into one: those from `from` to before `to`. Never the top one: all files that
 * are open for writing are there, because overlayfs copies them up as they are opened, and they have to keep their inodes.
 */
export function chooseRun(
  chain: readonly ChainLayer[],
  { canClone }: { canClone: boolean },
): { from: number; to: number } | undefined {
  if (chain.length <= CHAIN_MAX_LAYERS) return undefined
  const isLong = chain.length > LONG_CHAIN_LAYERS
  const maxReluctance = chain.length > LONGEST_CHAIN_LAYERS ? 2 : isLong ? 1 : 0
  const maxBytes = isLong || canClone ? Number.POSITIVE_INFINITY : RUN_MAX_BYTES
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
  return best.to - best.from >= (isLong ? 2 : RUN_MIN_LAYERS) ? best : undefined
}

function reluctance({ known, sizeBytes, isShared }: ChainLayer, canClone: boolean): 0 | 1 | 2 {
  // A process that has a file open may remember its inode number; a copy has another.
  if (known > 0) return 2
  return isShared || (sizeBytes > HEAVY_BYTES && !canClone) ? 1 : 0
}
