import type { AddressRange } from './guard-table.ts'

/**
 * Returns the ranges for a guard table. Adjacent ranges are merged. If there are still too many, ranges with only
 * anonymous memory between them are merged too, because the guard leaves anonymous memory inside a range alone. Returns
 * undefined when more than `max` are left.
 */
export function guardedRanges(
  mapped: readonly AddressRange[],
  { anonymous, max }: { anonymous: readonly AddressRange[]; max: number },
): AddressRange[] | undefined {
  const ranges = joinTouching(mapped)
  if (ranges.length <= max) return ranges
  const bridges = joinTouching([...mapped, ...anonymous])
  const bridged: AddressRange[] = []
  let at = 0
  for (const range of ranges) {
    while ((bridges[at]?.end ?? range.end) < range.end) at++
    const last = bridged.at(-1)
    if (last !== undefined && last.end > (bridges[at]?.start ?? range.start)) {
      bridged[bridged.length - 1] = { start: last.start, end: range.end }
    } else bridged.push(range)
  }
  return bridged.length <= max ? bridged : undefined
}

function joinTouching(ranges: readonly AddressRange[]): AddressRange[] {
  const joined: AddressRange[] = []
  for (const range of [...ranges].sort((one, other) => (one.start < other.start ? -1 : 1))) {
    const last = joined.at(-1)
    if (last?.end === range.start) joined[joined.length - 1] = { start: last.start, end: range.end }
    else joined.push({ start: range.start, end: range.end })
  }
  return joined
}

/** Sorts ranges and merges those that touch or overlap. */
export function joinOverlapping(ranges: readonly AddressRange[]): AddressRange[] {
  const joined: AddressRange[] = []
  for (const { start, end } of [...ranges].sort((one, other) => (one.start < other.start ? -1 : 1))) {
    const last = joined.at(-1)
    if (last === undefined || last.end < start) joined.push({ start, end })
    else if (last.end < end) joined[joined.length - 1] = { start: last.start, end }
  }
  return joined
}

/** Whether a range shares an address with one of `joined`, the result of `joinOverlapping`. */
export function touchesAny(joined: readonly AddressRange[], range: AddressRange): boolean {
  let [low, high] = [0, joined.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((joined[middle] as AddressRange).end <= range.start) low = middle + 1
    else high = middle
  }
  const found = joined[low]
  return found !== undefined && found.start < range.end
}
