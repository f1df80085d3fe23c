import { PAGE_BYTES } from './pagemap.ts'

const MB = 1n << 20n

/** A restore copies about 0.7 ms per MB: below this, what can be gained is less than what a restore varies by itself. */
export const COPIED_MAX_BYTES = 8n * MB
/**
 * How many bytes of the base may be copied for each byte that restores need not copy any more. The copy of a base that others
 * have too is more disk, and its pages in memory are no longer theirs. One that is ours alone goes when the copy is there.
 */
const SHARED_RATIO = 4n
const OWN_RATIO = 16n
/** Where the file system shares blocks, a copy costs no disk. */
const CLONE_RATIO = 64n
/** An area with this much is rewritten whatever its size: it alone costs each restore as much as all the rest of it. */
const LARGE_BYTES = 32n * MB
/** A run of pages shorter than this is copied faster than the area is rewritten. */
const SMALL_BYTES = 16n * PAGE_BYTES

/** Adjacent memory of a task that is adjacent in its memory file too. Kept together, so that the kernel can join it again. */
export interface MappedExtent {
  readonly start: bigint
  readonly end: bigint
  /** What of it is in the pages image: a restore copies that on top. */
  readonly copiedBytes: bigint
  /** At most this much of the memory file has to be copied to rewrite it. */
  readonly baseBytes: bigint
  /** The memory file it is mapped from. */
  readonly name: string
  /** Another snapshot, a burrow or the template has the same memory file. */
  readonly isShared: boolean
}

/** What to rewrite, of all tasks of a snapshot; nothing when it does not pay. */
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
  // Otherwise the same would be tried again, in vain, after the next sleep.
  if (sum(chosen) * 2n < COPIED_MAX_BYTES) return []
  // A file that is ours alone goes when nothing is left that is mapped from it; for a part it would stay whole.
  const leaving = new Set(chosen.filter(({ isShared }) => !isShared).map(({ name }) => name))
  return extents.filter((extent) => isWorthIt(extent) || leaving.has(extent.name))
}

function sum(extents: readonly MappedExtent[]): bigint {
  return extents.reduce((bytes, { copiedBytes }) => bytes + copiedBytes, 0n)
}
