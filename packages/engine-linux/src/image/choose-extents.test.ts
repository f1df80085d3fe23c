import { describe, expect, test } from 'vitest'
import { chooseExtents } from './choose-extents.ts'

const MB = 1n << 20n
const extent = (copiedMb: number, baseMb: number, isShared = true, name = 'file') => ({
  start: 0n,
  end: BigInt(baseMb) * MB,
  copiedBytes: BigInt(copiedMb * 1024) * 1024n,
  baseBytes: BigInt(baseMb) * MB,
  isShared,
  name,
})
const choose = (extents: ReturnType<typeof extent>[], canClone = false) =>
  chooseExtents(extents, { canClone })

describe('which memory is rewritten', () => {
  test('none while a restore copies little', () => {
    expect(choose([extent(4, 8), extent(3, 3)])).toEqual([])
  })

  test('what has changed much of itself', () => {
    const [much, little] = [extent(9, 36), extent(2, 400)]
    expect(choose([much, little])).toEqual([much])
  })

  test('what has changed less of itself, if no other snapshot has its base', () => {
    expect(choose([extent(9, 100, true)])).toEqual([])
    expect(choose([extent(9, 100, false)])).toHaveLength(1)
  })

  test('all of a file that no other snapshot has, so that the file can be removed', () => {
    const [much, untouched, other] = [
      extent(9, 9, false),
      extent(0, 50, false),
      extent(0, 50, false, 'other'),
    ]
    expect(choose([much, untouched, other])).toEqual([much, untouched])
    const [shared, beside] = [extent(9, 9, true), extent(0, 50, true)]
    expect(choose([shared, beside])).toEqual([shared])
  })

  test('what has changed little of itself, where copies cost only memory', () => {
    const area = extent(10, 600)
    expect(choose([area])).toEqual([])
    expect(choose([area], true)).toEqual([area])
  })

  test('what alone makes every restore slow, whatever it takes', () => {
    const area = extent(32, 4000)
    expect(choose([area])).toEqual([area])
  })

  test('nothing when it would not help', () => {
    expect(choose([extent(2, 4), extent(10, 600)])).toEqual([])
  })

  test('not the crumbs', () => {
    const [much, crumb] = [extent(9, 9), extent(1 / 32, 0)]
    expect(choose([much, crumb])).toEqual([much])
  })
})
