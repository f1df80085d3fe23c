import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { drawPlots } from '../../bench/plots.mjs'

const directory = new URL('../../docs/plots/', import.meta.url)
const drawn = await drawPlots()

test.each(drawn)(
  '$file shows what bench/results has: `node bench/plots.mjs` draws it again',
  ({ file, svg }) => {
    expect(readFileSync(new URL(file, directory), 'utf8')).toBe(svg)
  },
)

test('docs/plots has no plot without a result', () => {
  expect(readdirSync(directory).sort()).toEqual(drawn.map(({ file }) => file).sort())
})
