import { expect, test } from 'vitest'
import { SharedDeadline } from './shared-deadline.ts'

function clocks() {
  const now = { monotonicMs: 1_000, wallMs: 500_000 }
  const clock = { monotonicMs: () => now.monotonicMs, wallMs: () => now.wallMs }
  return { now, clock }
}

test('a new deadline has passed', () => {
  expect(new SharedDeadline().hasPassed).toBe(true)
})

test.each(['monotonicMs', 'wallMs'] as const)('a deadline has passed when %s alone says so', (name) => {
  const { now, clock } = clocks()
  const deadline = new SharedDeadline(undefined, clock)
  deadline.set(now, 100)
  now[name] += 99
  expect(deadline.hasPassed).toBe(false)
  now[name] += 1
  expect(deadline.hasPassed).toBe(true)
})

test('another thread that has the memory sees a deadline that is set, and its end', () => {
  const deadline = new SharedDeadline()
  const seen = new SharedDeadline(deadline.memory)
  deadline.set({ monotonicMs: Number(process.hrtime.bigint()) / 1e6, wallMs: Date.now() }, 60_000)
  expect(seen.hasPassed).toBe(false)
  deadline.end()
  expect(seen.hasPassed).toBe(true)
})
