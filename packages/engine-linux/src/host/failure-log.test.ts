import { expect, test } from 'vitest'
import { FailureLog } from './failure-log.ts'

test('a failure is logged with what it was about, and counted by kind', () => {
  const lines: [object, string][] = []
  const write = (fields: object, message: string) => void lines.push([fields, message])
  const failures = new FailureLog({ info: write, warn: write, error: write })
  const error = new Error('disk full')
  failures.report('upkeep', error, { snapshotId: 'snap_1' }, 'a snapshot was not improved')
  failures.report('upkeep', error, { snapshotId: 'snap_2' }, 'a snapshot was not improved')
  failures.report('spare', error, {}, 'a spare burrow was not made')
  expect(lines[0]).toEqual([
    { snapshotId: 'snap_1', kind: 'upkeep', err: error },
    'a snapshot was not improved',
  ])
  expect(Object.fromEntries(failures.counts)).toEqual({ upkeep: 2, spare: 1 })
})
