import { describe, expect, test } from 'vitest'
import { type ChangedRegion, COPIED_MAX_BYTES, chooseRewrites } from './choose-rewrites.ts'

const KB = 1024
const MB = 1024 * KB
const PAGE = 4 * KB

/** A region of `bytes` in which each page of `pages` has changed. */
function region(bytes: number, pages: Iterable<number>, start = 1 << 30): ChangedRegion {
  const changed = [...pages].map((page) => ({ start: start + page * PAGE, end: start + (page + 1) * PAGE }))
  return { start, end: start + bytes, pieces: [{ start, end: start + bytes, file: 'file' }], changed }
}
function* every(step: number, bytes: number, from = 0) {
  for (let page = from; page < from + bytes / PAGE; page += step) yield page
}
const changedBytes = (regions: readonly ChangedRegion[]) =>
  regions.reduce((sum, { changed }) => sum + changed.length * PAGE, 0)

function choose(regions: readonly ChangedRegion[], { otherBytes = 0, baseMaxBytes = 1e12 } = {}) {
  const copiedBytes = changedBytes(regions) + otherBytes
  const rewrites = chooseRewrites(regions, { copiedBytes, baseMaxBytes })
  const sum = (of: (rewrite: (typeof rewrites)[number]) => number) =>
    rewrites.reduce((total, rewrite) => total + of(rewrite), 0)
  return {
    rewrites,
    leftBytes: copiedBytes - sum((rewrite) => rewrite.changedBytes),
    baseBytes: sum((rewrite) => rewrite.baseBytes),
  }
}

describe('which ranges are rewritten', () => {
  test('none while a restore copies little', () => {
    expect(choose([region(900 * MB, every(64, 400 * MB))], { otherBytes: MB }).rewrites).toEqual([])
  })

  test('the whole region, when every second page of it has changed', () => {
    const heap = region(200 * MB, every(2, 200 * MB))
    const { rewrites, leftBytes } = choose([heap])
    expect(rewrites).toMatchObject([{ start: heap.start, end: heap.end, baseBytes: 100 * MB }])
    expect(leftBytes).toBe(0)
  })

  test('only the part that has changed, without a copy of what has not', () => {
    const heap = region(1000 * MB, every(1, 10 * MB, 1000))
    const { rewrites, baseBytes } = choose([heap])
    expect(rewrites).toHaveLength(1)
    expect(baseBytes).toBe(0)
  })

  test('as much as is needed, when few pages have changed everywhere', () => {
    const heap = region(1000 * MB, every(64, 1000 * MB))
    const { rewrites, leftBytes, baseBytes } = choose([heap])
    expect(leftBytes).toBeLessThanOrEqual(COPIED_MAX_BYTES)
    expect(baseBytes).toBeLessThan(600 * MB)
    expect(rewrites.length).toBeLessThan(10)
  })

  test('the densest first', () => {
    const dense = region(50 * MB, every(3, 50 * MB))
    const thin = region(500 * MB, every(200, 500 * MB), 1 << 31)
    expect(choose([thin, dense]).rewrites.map((rewrite) => rewrite.region)).toEqual([dense])
  })

  test('does not split a region into many mappings', () => {
    const islands = Array.from({ length: 1000 }, (_, n) => [...every(1, 128 * KB, n * 256)]).flat()
    const { rewrites, leftBytes } = choose([region(1000 * MB, islands)])
    expect(rewrites.length).toBeLessThan(65)
    expect(leftBytes).toBeLessThanOrEqual(COPIED_MAX_BYTES)
  })

  test('joins the pieces of earlier rewrites', () => {
    const plain = region(64 * MB, every(8, 64 * MB))
    const border = (n: number) => plain.start + n * 64 * PAGE
    const pieces = Array.from({ length: 256 }, (_, n) => ({
      ...{ start: border(n), end: border(n + 1) },
      file: String(n % 3),
    }))
    const { rewrites } = choose([{ ...plain, pieces }], { otherBytes: 4 * MB })
    expect(rewrites).toMatchObject([{ start: plain.start, end: plain.end }])
  })

  test('other memory that a restore copies leaves less room, but never none', () => {
    const heap = region(100 * MB, every(16, 64 * MB))
    expect(choose([heap], { otherBytes: 3 * MB }).rewrites).toEqual([])
    expect(choose([heap], { otherBytes: 6 * MB }).leftBytes).toBeLessThanOrEqual(COPIED_MAX_BYTES)
    const calm = region(100 * MB, every(16, 16 * MB))
    expect(choose([calm], { otherBytes: 100 * MB }).rewrites).toEqual([])
  })

  test('copies no more of what has not changed than allowed', () => {
    const heaps = [1, 2, 3, 4].map((n) => region(64 * MB, every(4, 64 * MB), n << 28))
    const { baseBytes, rewrites } = choose(heaps, { baseMaxBytes: 100 * MB })
    expect(baseBytes).toBeLessThanOrEqual(100 * MB)
    expect(rewrites).toHaveLength(2)
  })
})
