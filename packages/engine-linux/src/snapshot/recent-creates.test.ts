import { expect, test } from 'vitest'
import { RecentCreates } from './recent-creates.ts'

const MINUTE_MS = 60_000

test('two creates are wanted however old they are, and more only after a burst', () => {
  let nowMs = 0
  const recent = new RecentCreates<number>(() => nowMs)
  for (let n = 1; n <= 5; n += 1) {
    recent.add(n)
    nowMs += MINUTE_MS
  }
  expect(recent.wanted()).toEqual([5, 4])
  nowMs += 60 * MINUTE_MS
  expect(recent.wanted()).toEqual([5, 4])
  expect(recent.shrinksInMs()).toBeUndefined()
})

test('a burst is wanted again for five minutes, at most sixteen of it', () => {
  let nowMs = 0
  const recent = new RecentCreates<number>(() => nowMs)
  for (let n = 1; n <= 20; n += 1) {
    recent.add(n)
    nowMs += 100
  }
  expect(recent.wanted()).toHaveLength(16)
  expect(recent.wanted()[0]).toBe(20)
  nowMs += recent.shrinksInMs() ?? 0
  expect(recent.wanted()).toHaveLength(15)
  nowMs += 5 * MINUTE_MS
  expect(recent.wanted()).toEqual([20, 19])
})

test('creates are changed and forgotten', () => {
  const recent = new RecentCreates<string>()
  for (const name of ['a', 'b', 'c']) recent.add(name)
  recent.change((name) => (name === 'b' ? undefined : `${name}2`))
  expect(recent.wanted()).toEqual(['c2', 'a2'])
})
