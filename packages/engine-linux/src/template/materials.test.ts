import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  encodeMaterials,
  MATERIALS_PROGRAM,
  materialsFile,
  parseMaterials,
  readMaterials,
} from './materials.ts'

const digest = '0a'.repeat(32)
const other = '0b'.repeat(32)
const line = (...fields: unknown[]) => JSON.stringify(fields)

it('the program lists the packages of the system that it runs in', () => {
  const found = parseMaterials(execFileSync('python3', ['-I', '-c', MATERIALS_PROGRAM], { encoding: 'utf8' }))
  const [, version] = execFileSync('dpkg-query', ['--show', 'bash'], { encoding: 'utf8' }).trim().split('\t')
  expect(found.items).toContainEqual(expect.objectContaining({ type: 'deb', name: 'bash', version }))
})

it('a list is sorted and has one digest, whatever order it came in', () => {
  const lines = [line('wheel', 'six', '1.17.0', null, digest), line('deb', 'git', '1', 'amd64', other)]
  const one = parseMaterials(lines.join('\n'))
  expect(one.items.map(({ name }) => name)).toEqual(['git', 'six'])
  expect(parseMaterials(lines.reverse().join('\n'))).toEqual(one)
  expect(parseMaterials(line('deb', 'git', '1', 'amd64', digest)).sha256).not.toBe(one.sha256)
})

it('digests of what the base had are kept for the same version only', () => {
  const base = [
    { type: 'deb' as const, name: 'git', version: '1', architecture: 'amd64', sha256: digest },
    { type: 'deb' as const, name: 'curl', version: '1', architecture: 'amd64', sha256: digest },
  ]
  const text = [line('deb', 'git', '1', 'amd64', null), line('deb', 'curl', '2', 'amd64', null)].join('\n')
  expect(parseMaterials(text, base).items.map(({ name, sha256 }) => [name, sha256])).toEqual([
    ['curl', undefined],
    ['git', digest],
  ])
})

it.each([
  ['no JSON', '<html>'],
  ['no list', '{"type": "deb"}'],
  ['another type', line('exe', 'a', '1', null, null)],
  ['a digest that is none', line('deb', 'a', '1', 'amd64', 'abc')],
  ['a name without an end', line('deb', 'a'.repeat(300), '1', 'amd64', null)],
  [
    'too many entries',
    Array.from({ length: 20_001 }, (_, index) => line('deb', `p${index}`, '1', 'all', null)).join('\n'),
  ],
])('parseMaterials refuses %s', (_, text) => {
  expect(() => parseMaterials(text)).toThrow(expect.objectContaining({ code: 'setup_failed' }))
})

it('readMaterials finds what was written, and nothing where nothing was', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'dormouse-materials-'))
  try {
    expect(await readMaterials(directory)).toBeUndefined()
    const materials = parseMaterials(line('deb', 'git', '1', 'amd64', digest))
    writeFileSync(materialsFile(directory), encodeMaterials(materials))
    expect(await readMaterials(directory)).toEqual(materials)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
