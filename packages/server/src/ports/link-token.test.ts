import { expect, test } from 'vitest'
import { readLink, signLink } from './link-token.ts'

const secret = new Uint8Array(32).fill(7)
const claim = {
  ...{ sandboxId: 'sb-2222222222222222', port: 8000, keyId: 'abcdefghijkm' },
  expiresAtMs: 1_000_000,
}
const where = { sandboxId: claim.sandboxId, port: claim.port, nowMs: 999_999 }
const token = signLink(secret, claim)

test('a token says what was signed, until it expires', () => {
  expect(readLink(secret, token, where)).toEqual(claim)
  expect(readLink(secret, token, { ...where, nowMs: 1_000_000 })).toBeUndefined()
})

test('a token is for one port of one sandbox, by one server', () => {
  expect(readLink(secret, token, { ...where, port: 8001 })).toBeUndefined()
  expect(readLink(secret, token, { ...where, sandboxId: 'sb-3333333333333333' })).toBeUndefined()
  expect(readLink(new Uint8Array(32), token, where)).toBeUndefined()
})

test('a token that was changed anywhere is refused', () => {
  for (let at = 0; at < token.length; at += 1) {
    // The last of 43 characters carries four bits only, so that some of its changes mean the same bytes.
    if (at === token.length - 1) continue
    const other = token[at] === 'b' ? 'c' : 'b'
    expect(
      readLink(secret, token.slice(0, at) + other + token.slice(at + 1), where),
      `at ${at}`,
    ).toBeUndefined()
  }
  for (const bad of ['', '.', '..', token.slice(0, -1), `${token}a`, `z${token}`, 'ä'.repeat(60)])
    expect(readLink(secret, bad, where), bad).toBeUndefined()
})
