import { expect, test } from 'vitest'
import { formatBytes, formatDistance, formatMs, parseBytes, parseDurationMs } from './amounts.ts'

test('amounts are shown with three digits and a unit', () => {
  expect([0, 999, 1000, 4_240, 99_990, 310_400_000, 2.5e12].map(formatBytes)).toEqual([
    '0 B',
    '999 B',
    '1 kB',
    '4.24 kB',
    '100 kB',
    '310 MB',
    '2.5 TB',
  ])
  expect([0.84, 24.83, 150.4, 1_349, 59_990, 245_000].map(formatMs)).toEqual([
    '0.8 ms',
    '24.8 ms',
    '150 ms',
    '1.35 s',
    '60 s',
    '4 min 5 s',
  ])
  expect([3, 119, 120, 7_199, 7_200, 172_800].map((seconds) => formatDistance(0, seconds * 1000))).toEqual([
    '3 s',
    '119 s',
    '2 min',
    '119 min',
    '2 h',
    '2 d',
  ])
})

test('amounts are read with their units, and nothing else is', () => {
  expect(['0', '500ms', '15s', '1.5m', '2h', '7d'].map(parseDurationMs)).toEqual([
    0, 500, 15_000, 90_000, 7_200_000, 604_800_000,
  ])
  expect(['5', '', '5y', '-1s', 's'].map(parseDurationMs)).toEqual(Array(5).fill(undefined))
  expect(['1024', '500MB', '4GiB', '1.5 kb'].map(parseBytes)).toEqual([1024, 5e8, 4 * 1024 ** 3, 1500])
  expect(['', '4 bananas', '-1'].map(parseBytes)).toEqual(Array(3).fill(undefined))
})
