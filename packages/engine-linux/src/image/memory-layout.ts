import type { MemoryArea } from './memory-area.ts'

type Extent = Pick<MemoryArea, 'start' | 'end'>

/** An area and the offset of its first byte in the memory file. */
export interface PlacedArea {
  readonly start: bigint
  readonly end: bigint
  readonly fileOffset: bigint
}

export interface MemoryLayout {
  /** Sorted by address. */
  readonly placed: readonly PlacedArea[]
  readonly sizeBytes: bigint
}

/**
 * mremap() grows a mapping into the following bytes of the file. They have to read as zeros, like new memory, so a hole
 * follows every area. Holes take no space, and 8 GiB is more than a sandbox may have.
 */
const HOLE_BYTES = 8n << 30n

/**
 * Address and file offset are equal modulo the size of a huge page, so the kernel can map large folios of the page
 * cache whole. This also leaves the first bytes of the file empty, where CRIU looks for an ELF header.
 */
const ALIGNMENT_BYTES = 2n << 20n

/** The maximum file size of ext4 with 4 KiB blocks is 16 TiB less one block. */
const FILE_MAX_BYTES = (16n << 40n) - ALIGNMENT_BYTES

/** Places the areas with the most content first. Areas that do not fit are copied. */
export function layOutMemory(
  candidates: ReadonlyMap<Extent, bigint>,
  { areasMax, fileMaxBytes = FILE_MAX_BYTES }: { areasMax: number; fileMaxBytes?: bigint },
): MemoryLayout {
  let leftBytes = fileMaxBytes - ALIGNMENT_BYTES
  const chosen: Extent[] = []
  const largestFirst = [...candidates].sort(([, one], [, other]) => Number(other - one))
  for (const [area] of largestFirst) {
    // Aligning the start and the end of the hole can each cost up to one alignment.
    const neededBytes = area.end - area.start + HOLE_BYTES + 2n * ALIGNMENT_BYTES
    if (chosen.length === areasMax) break
    if (neededBytes > leftBytes) continue
    leftBytes -= neededBytes
    chosen.push(area)
  }

  let cursor = ALIGNMENT_BYTES
  const placed = chosen
    .sort((one, other) => (one.start < other.start ? -1 : 1))
    .map(({ start, end }) => {
      const fileOffset = cursor + (start % ALIGNMENT_BYTES)
      cursor = roundUp(fileOffset + (end - start) + HOLE_BYTES)
      return { start, end, fileOffset }
    })
  return { placed, sizeBytes: cursor }
}

function roundUp(value: bigint): bigint {
  return ((value + ALIGNMENT_BYTES - 1n) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES
}
