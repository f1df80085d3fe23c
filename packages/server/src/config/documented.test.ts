import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { configSchema } from './config-schema.ts'
import { defaultConfig } from './defaults.ts'
import { SETTINGS } from './settings.ts'

const text = readFileSync(
  fileURLToPath(new URL('../../../../docs/configuration.md', import.meta.url)),
  'utf8',
)

/** Rows of the tables: field, default, environment, argument, meaning. */
const rows = new Map(
  text
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim().replaceAll('`', '')),
    )
    .map((cells) => [cells[0]!, cells]),
)

type Schema = { type?: string; properties?: Record<string, Schema> }

function fields(schema: Schema, prefix = ''): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, inner]) =>
    inner.properties === undefined ? [prefix + name] : fields(inner, `${prefix}${name}.`),
  )
}

const all = fields(z.toJSONSchema(configSchema) as Schema)

it('docs/configuration.md has a row for every field, and for nothing else', () => {
  expect(all.length).toBeGreaterThan(15)
  expect([...rows.keys()].sort()).toEqual([...all].sort())
})

it.each(all)('docs/configuration.md tells the truth about %s', (field) => {
  const [, shown, env = '', flag = '', meaning] = rows.get(field) ?? []
  const setting = SETTINGS.find(({ path }) => path.join('.') === field)
  expect({ env, flag }).toEqual({ env: setting?.env ?? '', flag: setting?.flag ?? '' })
  expect(meaning).toMatch(/.{10}/)
  const [one, other] = [
    { cpus: 2, memoryBytes: 8e9, diskBytes: 100e9, files: 6e6, pids: 32_768 },
    { cpus: 8, memoryBytes: 32e9, diskBytes: 300e9, files: 20e6, pids: 4_194_304 },
  ].map((facts) =>
    field
      .split('.')
      .reduce<unknown>(
        (at, name) => (at as Record<string, unknown> | undefined)?.[name],
        defaultConfig(facts),
      ),
  )
  // A default that depends on the host is told in words.
  if (one === other) expect(shown).toBe(one === undefined ? 'none' : decimal(one))
})

/** 0.0000045, not 4.5e-6. */
function decimal(value: unknown): string {
  return typeof value === 'number' && value < 1 ? value.toFixed(9).replace(/0+$/, '') : String(value)
}
