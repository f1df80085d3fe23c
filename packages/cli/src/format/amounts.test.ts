import { expect, test } from 'vitest'
import {
  formatBytes,
  formatDistance,
  formatDuration,
  formatMs,
  formatTime,
  parseBytes,
  parseDurationMs,
  parseTime,
} from './amounts.ts'

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
  expect(['2g', '2G', '2GiB', '2 gib', '512m', '4k', '1.5T', '7b'].map(parseBytes)).toEqual([
    ...Array(4).fill(2 * 1024 ** 3),
    ...[512 * 1024 ** 2, 4096, 1.5 * 1024 ** 4, 7],
  ])
  expect(['', '4 bananas', '-1'].map(parseBytes)).toEqual(Array(3).fill(undefined))
})

test('times are read as a duration before now, a day or a timestamp, and shown in UTC', () => {
  const now = Date.parse('2026-01-31T12:00:00Z')
  expect(['10m', '2026-01-30', '2026-01-31T11:00:00+01:00'].map((text) => parseTime(text, now))).toEqual([
    now - 600_000,
    Date.parse('2026-01-30T00:00:00Z'),
    Date.parse('2026-01-31T10:00:00Z'),
  ])
  expect(['', 'yesterday', '5', '2026-13-01'].map((text) => parseTime(text, now))).toEqual(
    Array(4).fill(undefined),
  )
  expect(formatTime('2026-01-31T12:00:05.678Z')).toBe('2026-01-31T12:00:05Z')
  expect([500, 15_000, 300_000, 7_200_000, 604_800_000, 90_000].map(formatDuration)).toEqual([
    ...['500ms', '15s', '5m', '2h', '7d', '90s'],
  ])
})
