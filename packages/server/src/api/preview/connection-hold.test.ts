import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { ConnectionHold } from './connection-hold.ts'

let held = 0
const sandbox = {
  hold: () => {
    held += 1
    const end = () => {
      held -= 1
    }
    return { [Symbol.dispose]: end }
  },
} as unknown as SandboxHandle

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

test('an awaited answer is work however long it takes; silence behind it is not, and bytes are again', () => {
  const hold = new ConnectionHold(sandbox, { what: 'a connection', idleMs: 1000 })
  vi.advanceTimersByTime(100_000)
  expect(held).toBe(1)
  hold.mayIdle()
  vi.advanceTimersByTime(999)
  hold.touch()
  vi.advanceTimersByTime(999)
  expect(held).toBe(1)
  vi.advanceTimersByTime(2)
  expect(held).toBe(0)
  hold.touch()
  expect(held).toBe(1)
  vi.advanceTimersByTime(1001)
  expect(held).toBe(0)
  hold.touch()
  hold[Symbol.dispose]()
  hold.touch()
  expect(held).toBe(0)
})
