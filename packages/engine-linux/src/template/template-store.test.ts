import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { findTemplate, getTemplate, isolationOfTemplate, listTemplates } from './template-store.ts'

let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-templates-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

function publish(name: string, manifest: string) {
  const build = join(dataDir, 'templates', name, 'abc')
  mkdirSync(join(build, 'rootfs'), { recursive: true })
  writeFileSync(join(build, 'template.json'), manifest)
  symlinkSync('abc', join(dataDir, 'templates', name, 'current'))
  return build
}

function manifestOf(name: string) {
  return JSON.stringify({
    formatVersion: 1,
    name,
    hash: 'abc',
    suite: 'trixie',
    description: { name, suite: 'trixie' },
    sizeBytes: 1,
    createdAt: new Date(0).toISOString(),
    uidBase: 100_000,
    uidCount: 65_536,
  })
}

it('findTemplate answers the current build with a path that outlives the next switch', async () => {
  const build = publish('small', manifestOf('small'))
  expect(await findTemplate(dataDir, 'small')).toMatchObject({ hash: 'abc', rootfs: join(build, 'rootfs') })
  expect(await listTemplates(dataDir)).toHaveLength(1)
})

it('getTemplate throws template_not_found where findTemplate answers undefined', async () => {
  expect(await findTemplate(dataDir, 'absent')).toBeUndefined()
  expect(await listTemplates(dataDir)).toEqual([])
  await expect(getTemplate(dataDir, 'absent')).rejects.toMatchObject({ code: 'template_not_found' })
})

it('findTemplate refuses a name that is a path', async () => {
  await expect(findTemplate(dataDir, '../../etc')).rejects.toMatchObject({ code: 'invalid_argument' })
})

it('findTemplate does not take a damaged or unfinished template for an absent one', async () => {
  publish('damaged', '{"formatVersion": 1')
  await expect(findTemplate(dataDir, 'damaged')).rejects.toMatchObject({ code: 'setup_failed' })
  publish('newer', manifestOf('newer').replace('"formatVersion":1', '"formatVersion":2'))
  await expect(findTemplate(dataDir, 'newer')).rejects.toMatchObject({ code: 'setup_failed' })
})

it('isolationOfTemplate answers what the description asks for, and undefined for every other name', async () => {
  publish('plain', manifestOf('plain'))
  const { description, ...rest } = JSON.parse(manifestOf('strict'))
  publish('strict', JSON.stringify({ ...rest, description: { ...description, isolation: 'microvm' } }))
  expect(await isolationOfTemplate(dataDir, 'strict')).toBe('microvm')
  for (const name of ['plain', 'absent', '../../etc'])
    expect(await isolationOfTemplate(dataDir, name)).toBeUndefined()
})
