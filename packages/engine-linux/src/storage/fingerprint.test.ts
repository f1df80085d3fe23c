import { expect, it } from 'vitest'
import { mismatch, readFingerprint } from './fingerprint.ts'

const host = { arch: 'x64', kernel: '6.12.9-generic', cpuFlags: ['avx2', 'sse4_2'] }

it.each([
  ['itself', host, undefined],
  ['an update of the same kernel', { ...host, kernel: '6.12.1-generic' }, undefined],
  ['an older kernel', { ...host, kernel: '5.99.0' }, undefined],
  ['a CPU with less', { ...host, cpuFlags: ['sse4_2'] }, undefined],
  ['a newer kernel', { ...host, kernel: '6.13.0' }, /taken on Linux 6\.13\.0.*6\.12\.9-generic.*older/],
  ['a CPU with more', { ...host, cpuFlags: ['avx2', 'avx512f', 'sse4_2'] }, /lacks avx512f/],
  ['another kind of machine', { ...host, arch: 'arm64' }, /taken on arm64/],
])('a snapshot of %s', (_, saved, reason) => {
  if (reason === undefined) expect(mismatch(saved, host)).toBeUndefined()
  else expect(mismatch(saved, host)).toMatch(reason)
})

it('this host has one', async () => {
  const here = await readFingerprint()
  expect(here.cpuFlags.length).toBeGreaterThan(0)
  expect(mismatch(here, here)).toBeUndefined()
})
