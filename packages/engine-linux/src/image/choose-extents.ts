import { PAGE_BYTES } from './pagemap.ts'

const MB = 1n << 20n

/** A restore copies 1 MB in about 0.7 ms: less than this gains less than the noise between restores. */
export const COPIED_MAX_BYTES = 8n * MB
/**
 * How many bytes of the base may be copied for each byte that restores no longer copy. Copying a shared base takes disk
 * space and unshares its pages in memory. A base that only this snapshot has is removed after the copy.
 */
const SHARED_RATIO = 4n
const OWN_RATIO = 16n
/** Where the file system shares blocks, a copy takes no disk space. */
const CLONE_RATIO = 64n
/** An area with this much is always rewritten: it alone costs each restore as much as everything else. */
const LARGE_BYTES = 32n * MB
/** Copying a run of pages shorter than this is faster than rewriting the area. */
const SMALL_BYTES = 16n * PAGE_BYTES

/**
 * Adjacent memory of a task that is also adjacent in its memory file. Kept together, so that the kernel can join it
 * again.
 */
export interface MappedExtent {
  readonly start: bigint
  readonly end: bigint
  /** How much of it is in the pages image, which a restore copies on top. */
  readonly copiedBytes: bigint
  /** Upper bound of what has to be copied from the memory file to rewrite it. */
  readonly baseBytes: bigint
  /** The memory file it is mapped from. */
  readonly name: string
  /** Another snapshot, a burrow or the template has the same memory file. */
  readonly isShared: boolean
}

/** Chooses what to rewrite, over all tasks of a snapshot; nothing when it does not pay. */
export function chooseExtents<Extent extends MappedExtent>(
  extents: readonly Extent[],
  { canClone }: { canClone: boolean },
): Extent[] {
  if (sum(extents) < COPIED_MAX_BYTES) return []
  const isWorthIt = ({ copiedBytes, baseBytes, isShared }: Extent) => {
    const ratio = canClone ? CLONE_RATIO : isShared ? SHARED_RATIO : OWN_RATIO
    return copiedBytes >= SMALL_BYTES && (copiedBytes >= LARGE_BYTES || copiedBytes * ratio >= baseBytes)
  }
  const chosen = extents.filter(isWorthIt)
  // Otherwise the same attempt would fail again after every sleep.
  if (sum(chosen) * 2n < COPIED_MAX_BYTES) return []
  // A file that only this snapshot has is removed when nothing is mapped from it any more; a part of it would keep it
  // whole.
  const leaving = new Set(chosen.filter(({ isShared }) => !isShared).map(({ name }) => name))
  return extents.filter((extent) => isWorthIt(extent) || leaving.has(extent.name))
}

function sum(extents: readonly MappedExtent[]): bigint {
  return extents.reduce((bytes, { copiedBytes }) => bytes + copiedBytes, 0n)
}
