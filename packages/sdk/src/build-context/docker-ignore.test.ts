import { expect, it } from 'vitest'
import { dockerIgnore } from './docker-ignore.ts'

it.each([
  ['node_modules', 'node_modules/a/b.js', true],
  ['node_modules', 'app/node_modules', false],
  ['**/node_modules', 'app/node_modules/x', true],
  ['*.log', 'a.log', true],
  ['*.log', 'logs/a.log', false],
  ['**/*.log', 'logs/a.log', true],
  ['# a comment\n\n/build/', 'build/out', true],
  ['*\n!keep.txt', 'keep.txt', false],
  ['*\n!keep.txt', 'other.txt', true],
  ['a?c', 'abc', true],
  ['a.c', 'abc', false],
])('%j and %s: %s', (text, path, isIgnored) => {
  expect(dockerIgnore(text)(path)).toBe(isIgnored)
})
