import { describe, expect, test } from 'vitest'
import { parseRange, resolveRange } from './byte-range.ts'

describe('byte ranges', () => {
  test.each([
    ['bytes=0-4', { offset: 0, length: 5 }],
    ['bytes=5-', { offset: 5, length: 5 }],
    ['bytes=-3', { offset: 7, length: 3 }],
    ['bytes=-100', { offset: 0, length: 10 }],
    ['bytes=8-100', { offset: 8, length: 2 }],
    ['Bytes=9-9', { offset: 9, length: 1 }],
  ])('%s of ten bytes', (header, expected) => {
    const range = parseRange(header)
    expect(range && resolveRange(range, 10)).toEqual(expected)
  })

  test.each([
    undefined,
    '',
    'bytes=',
    'bytes=-',
    'bytes=5-4',
    'bytes=0-1,3-4',
    'lines=0-4',
    'bytes=a-b',
    'bytes=-1-2',
    'bytes=9999999999999999-',
  ])('%s is not a range and is ignored', (header) => {
    expect(parseRange(header)).toBeUndefined()
  })

  test.each(['bytes=10-', 'bytes=10-12', 'bytes=-0'])('%s is outside of ten bytes', (header) => {
    const range = parseRange(header)
    expect(range).toBeDefined()
    expect(() => resolveRange(range!, 10)).toThrow(/10 bytes/)
  })

  test('nothing is inside an empty file', () => {
    expect(() => resolveRange({ lastBytes: 5 }, 0)).toThrow(/0 bytes/)
    expect(() => resolveRange({ first: 0 }, 0)).toThrow(/0 bytes/)
  })
})
