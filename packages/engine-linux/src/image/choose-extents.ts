import { PAGE_BYTES } from './pagemap.ts'

const MB = 1n << 20n

/** A restore copies 1 MB in about 0.7 ms: saving less than this is lost in the noise between restores. */
export const COPIED_MAX_BYTES = 8n * MB
/**
 * How many bytes of the base memory file may be copied for each byte that restores no longer copy. Copying a shared
 * base takes disk space and unshares its pages in memory. A base that only this snapshot uses is removed after the
 * copy.
 */
const SHARED_RATIO = 4n
const OWN_RATIO = 16n
/** If the file system shares blocks, a copy takes no disk space. */
const CLONE_RATIO = 64n
/**
 * An extent with this much copied memory is always rewritten: it alone costs each restore as much as everything else.
 */
const LARGE_BYTES = 32n * MB
/** Copying a run of pages shorter than this is faster than rewriting the area. */
const SMALL_BYTES = 16n * PAGE_BYTES

/**
 * Memory of a task that is adjacent both in its address space and in its memory file. It stays together, so that the
 * kernel can merge the mappings.
 */
export interface MappedExtent {
  readonly start: bigint
  readonly end: bigint
  /** How many bytes are in the pages image, which a restore copies on top. */
  readonly copiedBytes: bigint
  /** Upper bound of the bytes that a rewrite copies from the memory file. */
  readonly baseBytes: bigint
  /** The memory file it is mapped from. */
  readonly name: string
  /** Another snapshot, a burrow or the template uses the same memory file. */
  readonly isShared: boolean
}

/** Chooses the extents to rewrite, over all tasks of a snapshot. Returns none when it does not pay off. */
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
  // Otherwise every sleep would trigger the same attempt again.
  if (sum(chosen) * 2n < COPIED_MAX_BYTES) return []
  // A memory file that only this snapshot uses is removed once nothing maps it. One remaining extent would keep the
  // whole file, so all its extents go.
  const leaving = new Set(chosen.filter(({ isShared }) => !isShared).map(({ name }) => name))
  return extents.filter((extent) => isWorthIt(extent) || leaving.has(extent.name))
}

function sum(extents: readonly MappedExtent[]): bigint {
  return extents.reduce((bytes, { copiedBytes }) => bytes + copiedBytes, 0n)
}
