const KB = 1024
const MB = 1024 * KB

/** A restore copies 1 MB in about 0.7 ms. It never copies more than this, as far as the memory can be mapped. */
export const COPIED_MAX_BYTES = 8 * MB
/** What to aim for once something is rewritten. Otherwise the next sleep would be over the maximum again. */
const GOAL_BYTES = 4 * MB
/**
 * How many unchanged bytes may be copied into the new memory file for each changed byte: below the maximum, and when
 * the goal is reached. Rewriting a range of which a quarter has changed also frees disk space soon.
 */
const BASE_RATIO = 16
const DENSE_BASE_RATIO = 3
/** Copying a range with fewer changed bytes is faster than one more mapping. */
const CHANGED_MIN_BYTES = 64 * KB
/** Every additional mapping costs a restore about 20 µs. */
const EXTRA_PIECES_MAX = 128
/** Longer ranges are cut, so that only as much is rewritten as needed. */
const RANGE_MAX_BYTES = 64 * MB
/** Unchanged bytes between two changes that are rewritten with them, instead of splitting a mapping. */
const GAPS_BYTES = [64 * KB, 512 * KB, 4 * MB, 32 * MB, Number.POSITIVE_INFINITY]

export interface Range {
  readonly start: number
  readonly end: number
}

/** Memory of a task without gaps that is mapped from memory files. Addresses fit into a number. */
export interface ChangedRegion extends Range {
  /** The mappings of the region, ascending, and which memory file each shows. */
  readonly pieces: readonly (Range & { readonly file: string })[]
  /** Pages that differ from the memory files, ascending. A restore copies them. */
  readonly changed: readonly Range[]
}

export interface Rewrite<Region> extends Range {
  readonly region: Region
  readonly changedBytes: number
  /** Upper bound of the bytes to copy from the memory files. */
  readonly baseBytes: number
}

/**
 * Chooses the ranges whose whole content goes into the new memory file, over all tasks of a dump, so that no restore
 * copies more than `COPIED_MAX_BYTES`. Prefers ranges that copy few unchanged bytes, and few of them: a range splits
 * the mapping that it is in.
 */
export function chooseRewrites<Region extends ChangedRegion>(
  regions: readonly Region[],
  { copiedBytes, baseMaxBytes }: { copiedBytes: number; baseMaxBytes: number },
): Rewrite<Region>[] {
  const changedBytes = regions.reduce((bytes, { changed }) => bytes + sum(changed), 0)
  // If other memory leaves less, rewriting everything that changed at all would not help.
  const limitBytes = Math.max(COPIED_MAX_BYTES - (copiedBytes - changedBytes), GOAL_BYTES / 2)
  if (changedBytes <= limitBytes) return []
  const piecesMax = Math.max(EXTRA_PIECES_MAX, countPieces(regions, []))
  let chosen: Rewrite<Region>[] = []
  for (const gapBytes of GAPS_BYTES) {
    const ranges = regions.flatMap((region) => findRanges(region, gapBytes))
    chosen = take(ranges, { changedBytes, limitBytes, baseMaxBytes })
    const leftBytes = changedBytes - chosen.reduce((bytes, range) => bytes + range.changedBytes, 0)
    if (leftBytes <= limitBytes && countPieces(regions, chosen) <= piecesMax) break
  }
  return joinTouching(chosen)
}

/** The changed ranges of a region, each with the gaps in it that are not longer than `gapBytes`. */
function findRanges<Region extends ChangedRegion>(region: Region, gapBytes: number): Rewrite<Region>[] {
  const ranges: Rewrite<Region>[] = []
  let open: { start: number; end: number; changedBytes: number } | undefined
  const close = () => {
    if (open === undefined) return
    if (open.changedBytes >= CHANGED_MIN_BYTES || gapBytes === Number.POSITIVE_INFINITY)
      ranges.push({ region, ...open, baseBytes: open.end - open.start - open.changedBytes })
    open = undefined
  }
  for (const { start, end } of region.changed) {
    if (open !== undefined && (start - open.end > gapBytes || end - open.start > RANGE_MAX_BYTES)) {
      // A range that is cut only for its length touches the next, so that both can become one mapping.
      if (start - open.end <= gapBytes) open.end = start
      close()
    }
    if (open === undefined) {
      const isFirst = start - region.start <= gapBytes && start - region.start < RANGE_MAX_BYTES
      const from = ranges.length === 0 && isFirst ? region.start : start
      open = { start: from, end, changedBytes: end - start }
    } else {
      open.end = end
      open.changedBytes += end - start
    }
  }
  if (open !== undefined && region.end - open.end <= Math.min(gapBytes, RANGE_MAX_BYTES))
    open.end = region.end
  close()
  return ranges
}

function take<Region>(
  ranges: readonly Rewrite<Region>[],
  limits: { changedBytes: number; limitBytes: number; baseMaxBytes: number },
): Rewrite<Region>[] {
  const cheapestFirst = [...ranges].sort(
    (one, other) => one.baseBytes / one.changedBytes - other.baseBytes / other.changedBytes,
  )
  const goalBytes = Math.min(GOAL_BYTES, limits.limitBytes / 2)
  let leftBytes = limits.changedBytes
  let baseLeftBytes = limits.baseMaxBytes
  const taken: Rewrite<Region>[] = []
  for (const range of cheapestFirst) {
    const maxRatio = leftBytes <= goalBytes ? DENSE_BASE_RATIO : BASE_RATIO
    if (leftBytes <= limits.limitBytes && range.baseBytes > maxRatio * range.changedBytes) break
    if (range.baseBytes > baseLeftBytes) continue
    leftBytes -= range.changedBytes
    baseLeftBytes -= range.baseBytes
    taken.push(range)
  }
  return taken
}

/** How many mappings the regions have beyond one each, after the rewrites. */
function countPieces<Region extends ChangedRegion>(
  regions: readonly Region[],
  rewrites: readonly Rewrite<Region>[],
): number {
  const joined = byRegion(joinTouching(rewrites))
  const isInside = ({ start, end }: Range, border: number) => start <= border && border <= end
  return regions.reduce((count, region) => {
    const ranges = joined.get(region) ?? []
    const borders = region.pieces.slice(1).map(({ start }) => start)
    const kept = borders.filter((border) => !ranges.some((range) => isInside(range, border)))
    const added = ranges.flatMap(({ start, end }) =>
      [start, end].filter((at) => at !== region.start && at !== region.end),
    )
    return count + kept.length + added.length
  }, 0)
}

export function joinTouching<Region>(rewrites: readonly Rewrite<Region>[]): Rewrite<Region>[] {
  const joined: Rewrite<Region>[] = []
  for (const own of byRegion(rewrites).values()) {
    let last: Rewrite<Region> | undefined
    for (const rewrite of own.sort((one, other) => one.start - other.start)) {
      if (last !== undefined && last.end === rewrite.start) {
        joined.pop()
        last = {
          ...last,
          end: rewrite.end,
          changedBytes: last.changedBytes + rewrite.changedBytes,
          baseBytes: last.baseBytes + rewrite.baseBytes,
        }
      } else last = rewrite
      joined.push(last)
    }
  }
  return joined
}

export function byRegion<Region>(rewrites: readonly Rewrite<Region>[]): Map<Region, Rewrite<Region>[]> {
  const found = new Map<Region, Rewrite<Region>[]>()
  for (const rewrite of rewrites) {
    const own = found.get(rewrite.region)
    if (own === undefined) found.set(rewrite.region, [rewrite])
    else own.push(rewrite)
  }
  return found
}

function sum(ranges: readonly Range[]): number {
  return ranges.reduce((bytes, { start, end }) => bytes + end - start, 0)
}
