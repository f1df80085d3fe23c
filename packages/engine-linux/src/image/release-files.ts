import { byRegion, type ChangedRegion, joinTouching, type Range, type Rewrite } from './choose-rewrites.ts'

/** A memory file of which less than this part stays in use is rewritten completely, so that it can be removed. */
const REST_RATIO = 4

/**
 * Adds to the rewrites what is left of memory files that would be kept for a small rest. Otherwise a snapshot would
 * take the disk space of its memory twice.
 */
export function releaseFiles<Region extends ChangedRegion>(
  regions: readonly Region[],
  rewrites: readonly Rewrite<Region>[],
  storedBytes: ReadonlyMap<string, number>,
): Rewrite<Region>[] {
  if (rewrites.length === 0) return []
  const taken = byRegion(rewrites)
  const rests = regions.flatMap((region) =>
    region.pieces.flatMap((piece) =>
      subtract(piece, taken.get(region) ?? []).map((range) => ({ ...range, region, file: piece.file })),
    ),
  )
  const restBytes = new Map<string, number>()
  for (const { file, start, end } of rests) restBytes.set(file, (restBytes.get(file) ?? 0) + end - start)
  const isReplaced = new Set(
    [...taken].flatMap(([region, own]) =>
      region.pieces.filter((piece) => own.some((range) => overlap(piece, range) > 0)).map(({ file }) => file),
    ),
  )
  const isSmallRest = (file: string) =>
    isReplaced.has(file) && (restBytes.get(file) ?? 0) * REST_RATIO <= (storedBytes.get(file) ?? 0)
  const added = rests
    .filter(({ file }) => isSmallRest(file))
    .map(({ region, start, end }) => {
      const changedBytes = region.changed.reduce((bytes, run) => bytes + overlap(run, { start, end }), 0)
      return { region, start, end, changedBytes, baseBytes: end - start - changedBytes }
    })
  return joinTouching([...rewrites, ...added])
}

/** The parts of a range that are in none of `others`, which are sorted. */
function subtract(range: Range, others: readonly Range[]): Range[] {
  const rest: Range[] = []
  let start = range.start
  for (const other of others) {
    if (other.end <= start || other.start >= range.end) continue
    if (other.start > start) rest.push({ start, end: other.start })
    start = other.end
  }
  if (start < range.end) rest.push({ start, end: range.end })
  return rest
}

function overlap(one: Range, other: Range): number {
  return Math.max(0, Math.min(one.end, other.end) - Math.max(one.start, other.start))
}
