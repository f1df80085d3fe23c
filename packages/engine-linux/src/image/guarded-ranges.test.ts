import { expect, it } from 'vitest'
import { guardedRanges } from './guarded-ranges.ts'

const ranges = (...pairs: [number, number][]) =>
  pairs.map(([start, end]) => ({ start: BigInt(start), end: BigInt(end) }))

it('sorts, and makes one of neighbours', () => {
  const mapped = ranges([50, 60], [10, 20], [20, 30])
  expect(guardedRanges(mapped, { anonymous: [], max: 5 })).toEqual(ranges([10, 30], [50, 60]))
})

it('leaves gaps alone while there is room', () => {
  const mapped = ranges([10, 20], [30, 40])
  expect(guardedRanges(mapped, { anonymous: ranges([20, 30]), max: 2 })).toEqual(mapped)
})

it('covers anonymous memory between two ranges when there are too many', () => {
  const mapped = ranges([10, 20], [30, 40], [60, 70], [80, 90])
  const anonymous = ranges([0, 10], [20, 25], [25, 30], [70, 75], [90, 99])
  expect(guardedRanges(mapped, { anonymous, max: 3 })).toEqual(ranges([10, 40], [60, 70], [80, 90]))
})

it('gives up rather than cover something else', () => {
  expect(guardedRanges(ranges([10, 20], [30, 40]), { anonymous: ranges([20, 29]), max: 1 })).toBeUndefined()
})

it('has nothing to tell when nothing is mapped', () => {
  expect(guardedRanges([], { anonymous: ranges([1, 2]), max: 0 })).toEqual([])
})
