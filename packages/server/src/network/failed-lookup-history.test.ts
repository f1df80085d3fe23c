import { newSandboxId } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { FailedLookupHistory } from './failed-lookup-history.ts'

test('each name is listed once for each reason, with the last time, newest first, and the list is bounded', () => {
  let now = 0
  const history = new FailedLookupHistory({ wallMs: () => now })
  const id = newSandboxId()
  const failed = (name: string, reason = 'the name does not exist') => history.add(id, { name, reason })
  failed('one.example')
  failed('two.example')
  now = 1000
  failed('one.example')
  failed('one.example', 'no name server answered')
  expect(history.recent(id)).toEqual([
    { at: '1970-01-01T00:00:01.000Z', name: 'one.example', reason: 'no name server answered' },
    { at: '1970-01-01T00:00:01.000Z', name: 'one.example', reason: 'the name does not exist' },
    { at: '1970-01-01T00:00:00.000Z', name: 'two.example', reason: 'the name does not exist' },
  ])
  for (let at = 0; at < 100; at += 1) failed(`n${at}.example`)
  expect(history.recent(id)).toHaveLength(50)
  history.add('sb-none', { name: 'one.example', reason: 'x' })
  history.forget(id)
  expect(history.recent(id)).toEqual([])
})
