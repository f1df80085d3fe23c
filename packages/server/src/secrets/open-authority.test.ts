import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openAuthority } from './open-authority.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'authority-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

test('the authority is made once, is readable for its owner only, and stays', () => {
  const path = join(directory, 'edge.pem')
  const made = openAuthority(path)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(openAuthority(path)).toEqual(made)
  // A crash in the middle leaves a draft that every user might read.
  rmSync(path)
  writeFileSync(`${path}.new`, 'half')
  chmodSync(`${path}.new`, 0o644)
  const next = openAuthority(path)
  expect(next.certificate).not.toBe(made.certificate)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readFileSync(path, 'utf8')).toContain('BEGIN PRIVATE KEY')
})

test('an authority that is about to end is made anew; one that is broken is not overwritten', () => {
  const path = join(directory, 'edge.pem')
  const old = openAuthority(path, new Date('2010-01-01T00:00:00Z'))
  expect(openAuthority(path, new Date('2029-06-01T00:00:00Z')).certificate).not.toBe(old.certificate)
  writeFileSync(path, 'nothing')
  expect(() => openAuthority(path)).toThrow(/is not the key and certificate/)
  expect(readFileSync(path, 'utf8')).toBe('nothing')
})
