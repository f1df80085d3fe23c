import { describe, expect, it } from 'vitest'
import { digestKey, findKeyId, isSameDigest, newKey } from './key-format.ts'

describe('keys', () => {
  it('carry their id, a prefix that scanners find, and 32 random bytes', () => {
    const { id, key } = newKey()
    expect(findKeyId(key)).toBe(id)
    const secret = key.slice(`dm_${id}_`.length)
    expect(Buffer.from(secret, 'base64url')).toHaveLength(32)
    expect(newKey().key).not.toBe(key)
  })

  it.each([
    '',
    'dm_',
    'dm__',
    'dm_abc_def',
    `${newKey().key} `,
    `x${newKey().key}`,
    newKey().key.slice(0, -1),
    `${newKey().key}a`,
    '\0',
  ])('are not found in %j', (text) => {
    expect(findKeyId(text)).toBeUndefined()
  })

  it('differ by digest wherever one bit differs, and digests of other lengths are no error', () => {
    const digest = digestKey(newKey().key)
    expect(isSameDigest(digest, Buffer.from(digest))).toBe(true)
    for (let bit = 0; bit < 256; bit++) {
      const other = Buffer.from(digest)
      other[bit >> 3]! ^= 1 << (bit & 7)
      expect(isSameDigest(digest, other)).toBe(false)
    }
    expect(isSameDigest(digest, digest.subarray(1))).toBe(false)
    expect(isSameDigest(digest, Buffer.alloc(0))).toBe(false)
  })
})
