import { expect, test } from 'vitest'
import { Moment } from '../clock/moment.ts'
import { FakeClock, serverClock } from '../clock/testing/fake-clock.ts'
import { ActiveWork } from './active-work.ts'
import type { Sandbox } from './sandbox.ts'
import { TimerWakes, timerWakeAt } from './timer-wakes.ts'

const host = new FakeClock()
const clock = serverClock(host)

/** Only what these functions use of a sandbox. */
function sleeper(row: object = {}, wake: () => Promise<void> = async () => {}) {
  const work = new ActiveWork({ lastActive: Moment.now(clock), clock, maxBackgroundMs: () => 0 })
  const all = { state: 'standby', wakeOnTimer: true, idleTimeoutMs: 15_000, ...row }
  const deps = { clock, quarantine: { damageOf: () => undefined } }
  const checkpoints = { untilReturn: undefined }
  return { work, row: all, deps, wake, checkpoints } as unknown as Sandbox
}

const inMs = (ms: number) => ({ deadline: new Date(host.wall + ms) })
const pauses = (sandbox: Sandbox, count: number) =>
  Array.from({ length: count }, () => {
    const at = timerWakeAt(sandbox, inMs(50))
    sandbox.work.woke('timer')
    return (at ?? 0) - host.wall
  })

test('a sandbox without the policy, or without a deadline, is not woken', () => {
  expect(timerWakeAt(sleeper({ wakeOnTimer: false }), inMs(5_000))).toBeUndefined()
  expect(timerWakeAt(sleeper(), {})).toBeUndefined()
  expect(timerWakeAt(sleeper(), inMs(5_000))).toBe(host.wall + 5_000)
})

test('each wake for a timer makes the next pause longer, until a caller uses the sandbox', () => {
  const sandbox = sleeper()
  expect(pauses(sandbox, 8)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000])
  // A timer that is due later than that is in time.
  expect(timerWakeAt(sandbox, inMs(61_000))).toBe(host.wall + 61_000)
  sandbox.work.touch()
  expect(pauses(sandbox, 1)).toEqual([1_000])
})

test('timers alone keep a sandbox awake for at most a fifth of the time', () => {
  expect(pauses(sleeper({ idleTimeoutMs: 600_000 }), 20).at(-1)).toBe(4 * 600_000)
})

test('a wake for a timer is no use by a caller', () => {
  const { work } = sleeper()
  host.pass(1_000)
  work.woke('timer')
  expect(work.idleMs).toBe(0)
  expect(work.timerWakes).toBe(1)
})

test('a few sandboxes wake at once, and one that fails waits longer each time', async () => {
  const timers = new TimerWakes()
  const due = { wakesAt: host.wall - 1 }
  const pending = Array.from({ length: 4 }, () => sleeper(due, () => new Promise<void>(() => {})))
  for (const sandbox of pending) {
    expect(timers.isDue(sandbox)).toBe(true)
    void timers.wake(sandbox)
  }
  expect(timers.isDue(sleeper(due))).toBe(false)

  const others = new TimerWakes()
  const failing = sleeper(due, () => Promise.reject(new Error('no room')))
  for (const pauseMs of [5_000, 10_000, 20_000]) {
    expect(others.isDue(failing)).toBe(true)
    await expect(others.wake(failing)).rejects.toThrow('no room')
    host.pass(pauseMs - 1)
    expect(others.isDue(failing)).toBe(false)
    host.pass(1)
  }
  expect(others.isDue(sleeper({ wakesAt: host.wall + 1 }))).toBe(false)
  expect(others.isDue(sleeper({ state: 'running', wakesAt: host.wall - 1 }))).toBe(false)
})
