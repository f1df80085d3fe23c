import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { parseNpmConfig, readNpmRegistries, writeNpmrc } from './host-npm.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-npm-'))
  vi.stubEnv('npm_config_userconfig', join(directory, 'npmrc'))
  // npx sets it, and it comes before the file.
  vi.stubEnv('npm_config_registry', undefined)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(directory, { recursive: true })
})

it('registries of the host are passed on, without its passwords and tokens', async () => {
  writeFileSync(
    join(directory, 'npmrc'),
    `registry=https://npm.example/all/
@ours:registry=http://ours.example:4873
@local:registry=file:///srv/npm
//npm.example/all/:_authToken=secret
fund=false
`,
  )
  const npmrc = writeNpmrc(await readNpmRegistries(undefined))
  expect(npmrc?.split('\n').sort()).toEqual([
    '',
    '@ours:registry=http://ours.example:4873/',
    'registry=https://npm.example/all/',
  ])
  // npm itself reads the file as it is meant.
  const file = join(directory, 'inside')
  writeFileSync(file, npmrc ?? '')
  const get = ['config', 'get', 'registry', `--globalconfig=${file}`, '--userconfig=/dev/null']
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }
  const npm = { cwd: '/', env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] } as const
  expect(execFileSync('npm', get, npm).trim()).toBe('https://npm.example/all/')
})

it('credentials in an address are left out', () => {
  const config = '{"registry": "https://reader:secret@npm.example/all/"}'
  expect(writeNpmrc(parseNpmConfig(config))).toBe('registry=https://npm.example/all/\n')
})

it.each([
  ['no npm', ''],
  ['something that is no object', '[1]'],
  ['settings of other kinds', '{"registry": 5, "@a b:registry": "https://x.example/", "proxy": "http://p"}'],
])('%s needs no file', (_what, text) => {
  expect(writeNpmrc(parseNpmConfig(text))).toBeUndefined()
})
