import { EventEmitter } from 'node:events'
import { DormouseError } from '@dormouse/contracts'
import type { PortConnection } from '@dormouse/engine'
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

test('bytes that wait for a sandbox that cannot wake yet wake it later', async () => {
  const errors = [new DormouseError('overloaded', 'busy'), new DormouseError('restore_failed', 'failed')]
  const connection = Object.assign(new EventEmitter(), { isParked: false, writableLength: 0 })
  let wakes = 0
  const use = async () => {
    wakes += 1
    const error = errors.shift()
    if (error !== undefined) throw error
    connection.isParked = false
  }
  const handle = { ...sandbox, keep: () => {}, use } as unknown as SandboxHandle
  const hold = new ConnectionHold(handle, { what: 'a connection', idleMs: 1000 })
  hold.follow(connection as unknown as PortConnection)
  Object.assign(connection, { isParked: true, writableLength: 1 })
  connection.emit('parked')
  await vi.advanceTimersByTimeAsync(999)
  expect(wakes).toBe(1)
  await vi.advanceTimersByTimeAsync(1)
  expect(wakes).toBe(2)
  await vi.advanceTimersByTimeAsync(1_999)
  expect(wakes).toBe(2)
  await vi.advanceTimersByTimeAsync(60_000)
  expect([wakes, connection.isParked]).toEqual([3, false])
  errors.push(new DormouseError('internal', 'a bug'))
  connection.isParked = true
  connection.emit('parked')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(wakes).toBe(4)
  hold[Symbol.dispose]()
})
