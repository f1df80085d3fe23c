import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { packContext } from './pack-context.ts'

const LONG = 'long/'.repeat(25)
let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-context-'))
  mkdirSync(join(directory, 'app'))
  mkdirSync(join(directory, 'left'))
  writeFileSync(join(directory, 'app/one'), 'content')
  writeFileSync(join(directory, 'left/out'), '')
  writeFileSync(join(directory, '.dockerignore'), 'left\n.dockerignore\n')
  symlinkSync('one', join(directory, 'app/file'))
  symlinkSync('app', join(directory, 'link'))
  symlinkSync(LONG, join(directory, 'dangling'))
})
afterAll(() => rmSync(directory, { recursive: true }))

async function list(options?: Parameters<typeof packContext>[1]): Promise<string[]> {
  const pieces: Uint8Array[] = []
  for await (const piece of await packContext(directory, options)) pieces.push(piece)
  const text = execFileSync('tar', ['-tvf', '-'], { input: Buffer.concat(pieces), encoding: 'utf8' })
  return text
    .trim()
    .split('\n')
    .map((line) => line.replace(/^(.)\S+ +\S+ +(\d+) \S+ \S+ /, '$1 $2 '))
    .sort()
}

it('links stay links, and what .dockerignore names is left out', async () => {
  expect(await list()).toEqual([
    '- 7 app/one',
    'd 0 app/',
    'l 0 app/file -> one',
    `l 0 dangling -> ${LONG}`,
    'l 0 link -> app',
  ])
})

it('an image on disk is sent with what its links lead to', async () => {
  expect(await list({ followsLinks: true })).toEqual(['- 7 app/file', '- 7 app/one', 'd 0 app/'])
})
