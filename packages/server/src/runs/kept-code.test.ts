import { KEPT_CODE_MAX_BYTES } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { keptCode } from './kept-code.ts'

test('short code is kept as it is', () => {
  expect(keptCode('print("ä")')).toEqual({ code: 'print("ä")', isCut: false, bytes: 11 })
})

test('code of exactly the bound is kept as it is', () => {
  const code = 'x'.repeat(KEPT_CODE_MAX_BYTES)
  expect(keptCode(code)).toEqual({ code, isCut: false, bytes: KEPT_CODE_MAX_BYTES })
})

test('long code is cut before a character that does not fit, and says so', () => {
  for (const shift of ['', 'a', 'ab', 'abc']) {
    const { code, isCut, bytes } = keptCode(shift + '🐭'.repeat(KEPT_CODE_MAX_BYTES))
    expect(isCut).toBe(true)
    expect(bytes).toBeLessThanOrEqual(KEPT_CODE_MAX_BYTES)
    expect(bytes).toBeGreaterThan(KEPT_CODE_MAX_BYTES - 4)
    expect(Buffer.byteLength(code)).toBe(bytes)
    expect(code).toMatch(/^[abc]*🐭+$/u)
  }
})
