import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { parseTemplateDescription, readTemplateDescription } from './description.ts'

const directory = mkdtempSync(join(tmpdir(), 'dormouse-description-'))
afterAll(() => rmSync(directory, { recursive: true }))

const minimal = { name: 'small', suite: 'trixie' }

describe('parseTemplateDescription', () => {
  it('fills in what a small description leaves out', () => {
    expect(parseTemplateDescription(minimal)).toEqual({ ...minimal, packages: [], commands: [], preload: [] })
  })

  it.each([
    ['name', { ...minimal, name: '../escape' }],
    ['name', { suite: 'trixie' }],
    ['suite', { ...minimal, suite: 'trixie main' }],
    ['packages.1', { ...minimal, packages: ['git', 'curl;reboot'] }],
    ['packages.0', { ...minimal, packages: ['--force-yes'] }],
    ['commands.0', { ...minimal, commands: ['  '] }],
    ['preload.0', { ...minimal, preload: ['os; import sys'] }],
    ['packges', { ...minimal, packges: [] }],
  ])('refuses a wrong %s and names it', (field, value) => {
    expect(() => parseTemplateDescription(value)).toThrow(
      expect.objectContaining({ code: 'invalid_argument', details: { field } }),
    )
  })
})

describe('readTemplateDescription', () => {
  it('reads the base template', async () => {
    const file = fileURLToPath(new URL('../../../../templates/python.json', import.meta.url))
    expect(await readTemplateDescription(file)).toMatchObject({
      name: 'python',
      preload: ['numpy', 'pandas', 'matplotlib'],
    })
  })

  it('names a file that is absent or not JSON', async () => {
    await expect(readTemplateDescription('/no/such/file')).rejects.toMatchObject({ code: 'invalid_argument' })
    writeFileSync(join(directory, 'bad.json'), '{"name": ')
    await expect(readTemplateDescription(join(directory, 'bad.json'))).rejects.toThrow(
      /bad\.json is not JSON/,
    )
  })
})
