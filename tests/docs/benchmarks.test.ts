import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { describeGoals } from '../../bench/goals.mjs'

const results = new URL('../../bench/results/', import.meta.url)
const pages = ['benchmarks.md', 'scale.md']
  .map((name) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8'))
  .join('\n')
const written = new Map(
  [...pages.matchAll(/<!-- (?<name>[a-z-]+) -->\n(?<text>[\s\S]*?)\n?<!-- \/\k<name> -->/g)].map(
    ({ groups }) => [groups?.['name'], groups?.['text']],
  ),
)
const measured = readdirSync(results).map((file) => ({
  file,
  ...JSON.parse(readFileSync(new URL(file, results), 'utf8')),
}))

test.each(measured)(
  'the section and the result of $file are of one run',
  ({ file, name, commit, date, section }) => {
    expect(file).toBe(`${name}.json`)
    expect(written.get(name)?.split('\n')).toEqual(section)
    const run = section.join(' ')
    expect(run).toContain(`commit ${commit}.`)
    expect(run).toContain(date.slice(0, 10))
  },
)

test('the pages have no figures without a result', () => {
  const filled = [...written].filter(([name, text]) => name !== 'goals' && text !== '').map(([name]) => name)
  expect(filled.sort()).toEqual(measured.map(({ name }) => name).sort())
})

test('the table of goals is that of the results', async () => {
  expect(written.get('goals')).toBe(await describeGoals())
})
