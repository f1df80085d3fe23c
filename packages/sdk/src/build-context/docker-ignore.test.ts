import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { dockerIgnore } from './docker-ignore.ts'

/** The Python SDK has the same. */
const cases = JSON.parse(readFileSync(new URL('docker-ignore.cases.json', import.meta.url), 'utf8')) as [
  text: string,
  path: string,
  isIgnored: boolean,
][]

it.each(cases)('%j and %s: %s', (text, path, isIgnored) => {
  expect(dockerIgnore(text).matches(path)).toBe(isIgnored)
})

it('a pattern that is none is refused', () => {
  expect(() => dockerIgnore('[z-a]')).toThrow('"[z-a]" is no pattern')
})
