import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { SilenceWatch } from './silence-watch.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function watched() {
  const state = { isWaiting: true, isHeld: false, asked: 0, silences: 0 }
  const watch = new SilenceWatch({
    isWaiting: () => state.isWaiting,
    isHeld: () => state.isHeld,
    ask: () => {
      state.asked += 1
    },
    onSilence: () => {
      state.silences += 1
      watch.stop()
    },
  })
  watch.begin()
  return { state, watch }
}

test('an agent that says nothing is asked once, and given up after twenty seconds', () => {
  const { state } = watched()
  vi.advanceTimersByTime(19_000)
  expect(state).toMatchObject({ asked: 1, silences: 0 })
  vi.advanceTimersByTime(1_000)
  expect(state).toMatchObject({ asked: 1, silences: 1 })
})

test('an agent that answers when asked is never given up, however long a call takes', () => {
  const { state, watch } = watched()
  for (let seconds = 0; seconds < 3_600; seconds += 1) {
    const { asked } = state
    vi.advanceTimersByTime(1_000)
    if (state.asked > asked) watch.heard()
  }
  expect(state.silences).toBe(0)
  expect(state.asked).toBeGreaterThan(100)
})

test('an agent that the host has stopped itself is neither asked nor given up', () => {
  const { state } = watched()
  state.isHeld = true
  vi.advanceTimersByTime(600_000)
  expect(state).toMatchObject({ asked: 0, silences: 0 })
})

test('nothing is looked at while no answer is waited for, and a later call gets its full time', () => {
  const { state, watch } = watched()
  vi.advanceTimersByTime(14_000)
  state.isWaiting = false
  vi.advanceTimersByTime(5_000)
  expect(vi.getTimerCount()).toBe(0)
  state.isWaiting = true
  watch.begin()
  vi.advanceTimersByTime(19_000)
  expect(state.silences).toBe(0)
})
