import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ssh2 from 'ssh2'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openHostKey } from './host-key.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-host-key-'))
})
afterEach(() => {
  vi.restoreAllMocks()
  rmSync(directory, { recursive: true })
})

test('the key of the first start is that of later ones', () => {
  const first = openHostKey(directory)
  expect(first.publicKey).toMatch(/^ssh-ed25519 /)
  expect(openHostKey(directory)).toEqual(first)
})

test('a malformed key, as ssh2 generates now and then, is not kept', () => {
  const good = ssh2.utils.generateKeyPairSync('ed25519')
  const bad = { ...good, private: good.private.replace(/\n.{20}/, '\n') }
  vi.spyOn(ssh2.utils, 'generateKeyPairSync').mockReturnValueOnce(bad).mockReturnValueOnce(bad)
  expect(openHostKey(directory)).toEqual(openHostKey(directory))
})
