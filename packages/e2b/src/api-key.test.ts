import { expect, test } from 'vitest'
import { keyIn, toE2bKey } from './api-key.ts'

test('a key has a form that clients of E2B accept, and that form is the same key', () => {
  const key = 'dm_k3v9x2m4p7q8_abcDEF-_0123456789012345678901234567890123456'
  expect(toE2bKey(key)).toMatch(/^e2b_[0-9a-f]+$/)
  expect(keyIn(toE2bKey(key))).toBe(key)
  expect(keyIn(key)).toBe(key)
  expect(() => keyIn(undefined)).toThrow(/credentials/)
})
