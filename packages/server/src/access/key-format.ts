import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

// No 0/o and 1/l: people read ids aloud and type them.
const ID_ALPHABET = '23456789abcdefghijkmnpqrstuvwxyz'
const ID_CHARACTERS = 12
const SECRET_BYTES = 32

/** `dm_<id>_<secret>`: secret scanners find the prefix, and the id finds the row without comparing secrets. */
const KEY_PATTERN = /^dm_(?<id>[2-9a-km-np-z]{12})_[A-Za-z0-9_-]{43}$/

export interface NewKey {
  readonly id: string
  readonly key: string
}

export function newKey(): NewKey {
  let id = ''
  // The alphabet has 32 characters, so five bits of each byte pick one without bias.
  for (const byte of randomBytes(ID_CHARACTERS)) id += ID_ALPHABET[byte & 31]
  return { id, key: `dm_${id}_${randomBytes(SECRET_BYTES).toString('base64url')}` }
}

/** The id in a key, or undefined when the text is no key. */
export function findKeyId(key: string): string | undefined {
  return KEY_PATTERN.exec(key)?.groups?.id
}

/**
 * One SHA-256 is enough: salted slow hashes protect passwords that people choose, but 32 random bytes cannot be
 * guessed, and a slow hash per request would let clients overload the server. The digest covers the id, so it fits no
 * other row.
 */
export function digestKey(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

/** Takes the same time wherever the two differ. */
export function isSameDigest(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right)
}
