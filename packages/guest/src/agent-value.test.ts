import { describe, expect, test } from 'vitest'
import { checkContextInfo, checkListeningPort, checkProcessInfo } from './check-answers.ts'
import { checkProcessEvent, checkRunEvent } from './check-events.ts'
import { checkFileStat } from './check-files.ts'

const stat = {
  ...{ path: '/a', name: 'a', type: 'file', sizeBytes: 1, mode: 0o644, uid: 0, gid: 0 },
  ...{ user: 'root', group: 'root', modifiedAt: 0 },
}
const process = {
  processId: 'pr-k3v9x2m4p7q8r5t6',
  pid: 3,
  command: 'a',
  user: 'root',
  state: 'running',
  startedAt: 0,
  pty: false,
}
const malformed = expect.objectContaining({ code: 'agent_unreachable' })

describe('what an agent says', () => {
  test('passes on only fields of the protocol', () => {
    const lie = { snapshotId: 'sn-1', toJSON: 'x', nested: { deep: true } }
    expect(checkRunEvent({ seq: 1, type: 'stdout', data: 'x', ...lie })).toEqual({
      seq: 1,
      type: 'stdout',
      data: 'x',
    })
    expect(checkFileStat({ ...stat, ...lie })).toEqual(stat)
    expect(checkProcessInfo({ ...process, ...lie })).toEqual(process)
  })

  test.each<[string, (value: object) => unknown, object]>([
    ['an event before the first', checkRunEvent, { seq: -1, type: 'stdout', data: '' }],
    ['an event beyond counting', checkRunEvent, { seq: 2 ** 53 - 1, type: 'stdout', data: '' }],
    ['an event that is half a number', checkRunEvent, { seq: 0.5, type: 'stdout', data: '' }],
    ['an event of no known type', checkRunEvent, { seq: 0, type: '__proto__' }],
    ['a result that is a list', checkRunEvent, { seq: 0, type: 'result', data: [] }],
    ['an endless duration', checkRunEvent, { seq: 0, type: 'exit', exitCode: 0, durationMs: 1e300 }],
    [
      'an exit code beyond 32 bits',
      checkRunEvent,
      { seq: 0, type: 'exit', exitCode: 2 ** 40, durationMs: 1 },
    ],
    ['the result of a process', checkProcessEvent, { seq: 0, type: 'result', data: {} }],
    ['a date that no calendar has', checkFileStat, { ...stat, modifiedAt: 9e15 }],
    ['a size below zero', checkFileStat, { ...stat, sizeBytes: -1 }],
    ['a process without an id', checkProcessInfo, { ...process, processId: '../keys' }],
    ['a process without a number', checkProcessInfo, { ...process, pid: 0 }],
    [
      'a context in an unknown state',
      checkContextInfo,
      { context: 'a', user: 'r', pid: 1, state: 'x', restarts: 0 },
    ],
    ['a port that is none', checkListeningPort, { port: 65_536, address: '127.0.0.1' }],
    ['an address that is none', checkListeningPort, { port: 80, address: 'localhost' }],
  ])('%s is refused', (_what, check, value) => {
    expect(() => check(value)).toThrow(malformed)
  })
})
