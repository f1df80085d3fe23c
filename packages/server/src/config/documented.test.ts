import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { fillSettingsTables, serverFlags } from './describe-settings.ts'
import { ALL_SETTINGS } from './settings.ts'

const markdown = readFileSync(new URL('../../../../docs/configuration.md', import.meta.url), 'utf8')

it('docs/configuration.md is what docs/make-configuration.mjs writes', () => {
  expect(markdown).toBe(fillSettingsTables(markdown))
})

it.each(ALL_SETTINGS)('docs/configuration.md has a row for $path', ({ path, setting }) => {
  const { env = '', flag = '', summary } = setting.description
  const rows = markdown.split('\n').filter((line) => line.startsWith(`| \`${path.join('.')}\` |`))
  expect(rows).toHaveLength(1)
  for (const text of [env, flag, summary]) expect(rows[0]).toContain(text)
})

it('no two settings share a variable or a flag', () => {
  const variables = ALL_SETTINGS.flatMap(({ setting }) => setting.description.env ?? [])
  const flags = serverFlags().map(({ flag }) => flag)
  expect(new Set(variables).size).toBe(variables.length)
  expect(new Set(flags).size).toBe(flags.length)
  expect(flags.length).toBeGreaterThan(5)
})

it('fillSettingsTables refuses a document that lacks a section', () => {
  expect(() => fillSettingsTables('')).toThrow('listen')
  expect(() => fillSettingsTables('<!-- settings: nothing -->\n<!-- end of settings -->')).toThrow('nothing')
})
