import { expect, test } from 'vitest'
import { RecordSum } from './record-sum.ts'

function sumOf(
  records: readonly string[],
  chunkBytes = Number.POSITIVE_INFINITY,
): { count: number; sum: string } {
  const bytes = Buffer.from(records.join(''), 'latin1')
  const sum = new RecordSum()
  for (let at = 0; at < bytes.length; at += chunkBytes) sum.add(bytes.subarray(at, at + chunkBytes))
  return { count: sum.count, sum: sum.sum }
}

const RECORDS = ['a\0f 644 1\0', 'b\0f 644 2\0', 'c\0d 755\0', '\0d 755\0', 'new\nline\xff\0f 1\0']

test('a sum of records depends on neither their order nor how they arrive', () => {
  const whole = sumOf(RECORDS)
  expect(whole).toEqual({ count: 5, sum: expect.stringMatching(/^[0-9a-f]{16}$/) })
  expect(sumOf([...RECORDS].reverse())).toEqual(whole)
  for (const chunkBytes of [1, 2, 3, 7]) expect(sumOf(RECORDS, chunkBytes)).toEqual(whole)
})

test('a sum of records depends on every byte, and on what belongs together', () => {
  const seen = new Set([sumOf(RECORDS).sum])
  const text = RECORDS.join('')
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\0') continue
    for (const bit of [1, 2, 4, 8, 16, 32, 64, 128]) {
      const other = String.fromCharCode(text.charCodeAt(at) ^ bit)
      if (other !== '\0') seen.add(sumOf([text.slice(0, at) + other + text.slice(at + 1)]).sum)
    }
  }
  seen.add(sumOf(['b\0f 644 1\0', 'a\0f 644 2\0', ...RECORDS.slice(2)]).sum)
  const flips = [...text].filter((character) => character !== '\0').length * 8
  // Flips that made a NUL are left out.
  const nuls = [...text].filter((character) =>
    [1, 2, 4, 8, 16, 32, 64, 128].includes(character.charCodeAt(0)),
  ).length
  expect(seen.size).toBe(2 + flips - nuls)
})
