import { expect, test } from 'vitest'
import { dayStrip } from './day-strip.ts'

const NOW = Date.UTC(2030, 0, 2)
const hour = (hours: number) => new Date(NOW - hours * 3_600_000).toISOString()
const row = (change: object) => ({ state: 'standby', tier: 'stored', createdAt: 0, ...change }) as const

test('a sandbox without entries was in its present state all day', () => {
  expect(dayStrip(row({}), [], NOW)).toEqual([{ state: 'stored', from: hour(24), to: hour(0) }])
})

test('sleeps and wakes become spans, and the first entry says what was before', () => {
  const entries = [
    { event: 'woke', tier: 'stored', at: hour(10) },
    { event: 'snapshot', at: hour(9) },
    { event: 'slept', tier: 'frozen', at: hour(6) },
    { event: 'stored', at: hour(4) },
  ] as const
  expect(dayStrip(row({}), entries, NOW)).toEqual([
    { state: 'stored', from: hour(24), to: hour(10) },
    { state: 'running', from: hour(10), to: hour(6) },
    { state: 'frozen', from: hour(6), to: hour(4) },
    { state: 'stored', from: hour(4), to: hour(0) },
  ])
})

test('a strip begins when the sandbox was created', () => {
  const created = row({ state: 'running', tier: undefined, createdAt: Date.parse(hour(2)) })
  expect(dayStrip(created, [{ event: 'created', at: hour(2) }], NOW)).toEqual([
    { state: 'running', from: hour(2), to: hour(0) },
  ])
})
