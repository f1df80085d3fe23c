import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Log } from '../log.ts'
import { DataWakes } from './data-wakes.ts'
import type { Sandbox } from './sandbox.ts'

const log = { warn: () => {} } as unknown as Log
const clock = { monotonicMs: () => Date.now() }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function sleeper({ wakeOnData = true } = {}) {
  const wake = vi.fn(async () => {})
  const row = { state: 'standby', connections: { wakeOnData, keepAsleepMs: 3_600_000 } }
  return { wake, row, sandbox: { id: 'sb-1', row, wake } as unknown as Sandbox }
}

test('data wakes a sandbox at once, and then at most once in ten seconds, however much arrives', async () => {
  using wakes = new DataWakes({ clock, log })
  const { wake, sandbox } = sleeper()
  for (let ms = 0; ms < 29_000; ms += 100) {
    wakes.arrived(sandbox)
    await vi.advanceTimersByTimeAsync(100)
  }
  expect(wake.mock.calls).toEqual([['data'], ['data'], ['data']])
})

test('data does not wake a sandbox without the policy, or one that is awake by then', async () => {
  using wakes = new DataWakes({ clock, log })
  const [unwilling, awake] = [sleeper({ wakeOnData: false }), sleeper()]
  wakes.arrived(unwilling.sandbox)
  wakes.arrived(awake.sandbox)
  awake.row.state = 'running'
  await vi.advanceTimersByTimeAsync(60_000)
  expect([unwilling.wake.mock.calls, awake.wake.mock.calls]).toEqual([[], []])
})
