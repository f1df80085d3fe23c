import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { LivenessMonitor } from './liveness-monitor.ts'

describe('LivenessMonitor', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('pings a silent agent once, and reports silence after twenty seconds', () => {
    const { state } = startMonitor()
    vi.advanceTimersByTime(19_000)
    expect(state).toMatchObject({ pings: 1, silences: 0 })
    vi.advanceTimersByTime(1_000)
    expect(state).toMatchObject({ pings: 1, silences: 1 })
  })

  test('never reports an agent that answers pings, however long a call takes', () => {
    const { state, monitor } = startMonitor()
    for (let seconds = 0; seconds < 3_600; seconds += 1) {
      const { pings } = state
      vi.advanceTimersByTime(1_000)
      if (state.pings > pings) monitor.onData()
    }
    expect(state.silences).toBe(0)
    expect(state.pings).toBeGreaterThan(100)
  })

  test('neither pings nor reports an agent while the host itself has stopped it', () => {
    const { state } = startMonitor()
    state.isHeld = true
    vi.advanceTimersByTime(600_000)
    expect(state).toMatchObject({ pings: 0, silences: 0 })
  })

  test('stops while no call waits, and gives a later call its full time', () => {
    const { state, monitor } = startMonitor()
    vi.advanceTimersByTime(14_000)
    state.isWaiting = false
    vi.advanceTimersByTime(5_000)
    expect(vi.getTimerCount()).toBe(0)
    state.isWaiting = true
    monitor.start()
    vi.advanceTimersByTime(19_000)
    expect(state.silences).toBe(0)
  })
})

function startMonitor() {
  const state = { isWaiting: true, isHeld: false, pings: 0, silences: 0 }
  const monitor = new LivenessMonitor({
    isWaiting: () => state.isWaiting,
    isHeld: () => state.isHeld,
    ping: () => {
      state.pings += 1
    },
    onSilence: () => {
      state.silences += 1
      monitor.stop()
    },
  })
  monitor.start()
  return { state, monitor }
}
