import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { describeGoals } from '../../bench/goals.mjs'

const run = promisify(execFile)
const HOT_ALONE = {
  ...{ hot: { ours: { p50: 1 } }, create: { p50: 1 } },
  bursts: { tenth: { p50: 1 } },
}

const results = new URL('../../bench/results/', import.meta.url)
const pages = ['benchmarks.md', 'scale.md'].map((name) =>
  readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8'),
)
const written = new Map(
  [...pages.join('\n').matchAll(/<!-- (?<name>[a-z-]+) -->\n(?<text>[\s\S]*?)\n?<!-- \/\k<name> -->/g)].map(
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

test('docs has no figures in these sections without a result', () => {
  const filled = [...written].filter(([name, text]) => name !== 'goals' && text !== '').map(([name]) => name)
  expect(filled.sort()).toEqual(measured.map(({ name }) => name).sort())
})

test('a goal whose figure is in no result stays in the table', async () => {
  const all = await describeGoals()
  const absent = await describeGoals(async () => undefined)
  expect(absent.split('\n').length).toBe(all.split('\n').length)
  expect(absent).toMatch(/^0 of (\d+) goals are met, and \1 have no figure\.\n/)
  // Before there were controls in this result.
  const partial = await describeGoals(async (name: string) => (name === 'hot' ? HOT_ALONE : undefined))
  expect(partial).toContain('| … plain ipykernel / ours | ≥ 4 × |  | **absent** | `hot` |')
  expect(partial).toContain('| hot run over HTTP | ≤ 1.2 ms | 1.00 | met | `hot` |')
})

test('a benchmark whose package is missing ends before it measures, and names the package', async () => {
  const program = fileURLToPath(new URL('../../bench/ports.mjs', import.meta.url))
  const env = { ...process.env, PATH: '/var/empty' }
  const ended = await run(process.execPath, [program, '--quick'], { env }).catch((error) => error)
  expect(ended.code).toBe(1)
  expect(ended.stderr).toContain('`apt-get install wrk`')
})

test('the table of goals is that of the results', async () => {
  expect(written.get('goals')).toBe(await describeGoals())
})
