import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { setWallClockTimer } from './wall-clock-timer.ts'

const DAY_MS = 24 * 3600 * 1000

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

test('acts once, at its time, however far away that is', () => {
  const act = vi.fn()
  setWallClockTimer(Date.now() + 30 * DAY_MS, act)
  vi.advanceTimersByTime(30 * DAY_MS - 1)
  expect(act).not.toHaveBeenCalled()
  vi.advanceTimersByTime(1)
  expect(act).toHaveBeenCalledOnce()
  expect(vi.getTimerCount()).toBe(0)
})

test('acts at once when the time is over, soon when the clock was set past it, and never when it was called off', () => {
  const act = vi.fn()
  setWallClockTimer(Date.now(), act)
  expect(act).toHaveBeenCalledOnce()
  setWallClockTimer(Date.now() + DAY_MS, act)
  vi.setSystemTime(Date.now() + 2 * DAY_MS)
  vi.advanceTimersByTime(60_000)
  expect(act).toHaveBeenCalledTimes(2)
  const forget = setWallClockTimer(Date.now() + 1000, act)
  forget()
  vi.advanceTimersByTime(2000)
  expect(act).toHaveBeenCalledTimes(2)
})
