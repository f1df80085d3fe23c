import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { builds, clientBundlePaths, findClientBundle } from './client-bundle.mjs'

let repo = ''
beforeEach(() => {
  repo = mkdtempSync(join(tmpdir(), 'dormouse-bundle-'))
  for (const name of ['cli', 'sdk', 'mcp', 'contracts', 'async']) {
    mkdirSync(join(repo, 'packages', name), { recursive: true })
    writeFileSync(join(repo, 'packages', name, 'tsconfig.tsbuildinfo'), '{}')
  }
  const { directory, entry, stamp } = clientBundlePaths(repo)
  mkdirSync(directory, { recursive: true })
  writeFileSync(entry, '')
  writeFileSync(stamp, builds(repo))
})
afterEach(() => rmSync(repo, { recursive: true }))

it('findClientBundle finds the bundle as long as nothing was built since', () => {
  expect(findClientBundle(repo)).toBe(clientBundlePaths(repo).entry)
})

it.each(['cli', 'sdk', 'mcp', 'contracts', 'async'])(
  'findClientBundle ignores the bundle when %s was built since',
  (name) => {
    utimesSync(join(repo, 'packages', name, 'tsconfig.tsbuildinfo'), new Date(), new Date(Date.now() + 5))
    expect(findClientBundle(repo)).toBeUndefined()
  },
)

it('findClientBundle ignores an incomplete bundle, and one whose packages are not built', () => {
  rmSync(clientBundlePaths(repo).stamp)
  expect(findClientBundle(repo)).toBeUndefined()
  rmSync(join(repo, 'packages'), { recursive: true })
  expect(findClientBundle(repo)).toBeUndefined()
})
