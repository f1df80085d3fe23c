import type { SandboxAnswer } from '@dormouse/contracts/http'
import { expect, test } from 'vitest'
import type { SandboxRecord } from './record.ts'
import { expiryOf, stateOf } from './state.ts'

const record = (more: Partial<SandboxRecord>) =>
  ({ endAtMs: 1000, onTimeout: 'kill', isPaused: false, ...more }) as SandboxRecord
const view = (state: SandboxAnswer['state']) => ({ state }) as SandboxAnswer

test('a sandbox that sleeps because it is idle is running for its client', () => {
  expect(stateOf(record({}), view('standby'), 500)).toBe('running')
})

test('a sandbox is paused when its client paused it, or when its time was over', () => {
  expect(stateOf(record({ isPaused: true }), view('standby'), 500)).toBe('paused')
  expect(stateOf(record({ onTimeout: 'pause' }), view('standby'), 1000)).toBe('paused')
  expect(stateOf(record({ onTimeout: 'pause' }), view('standby'), 999)).toBe('running')
  expect(stateOf(record({ isPaused: true }), view('running'), 2000)).toBe('running')
})

test('the end of its time is a policy that `why` explains', () => {
  expect(expiryOf({ endAtMs: 0, onTimeout: 'pause' })).toEqual({
    at: '1970-01-01T00:00:00.000Z',
    action: 'standby',
  })
  expect(expiryOf({ endAtMs: 0, onTimeout: 'kill' }).action).toBe('delete')
})
