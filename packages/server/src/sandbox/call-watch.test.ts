import { expect, test } from 'vitest'
import { Moment } from '../clock/moment.ts'
import { FakeClock, serverClock } from '../clock/testing/fake-clock.ts'
import { ActiveWork } from './active-work.ts'

function start() {
  const clock = serverClock(new FakeClock(0), undefined)
  const work = new ActiveWork({ lastActive: Moment.now(clock), clock, maxBackgroundMs: () => 0 })
  return { work, watch: work.watch() }
}

/** No test waits as long. */
const LONG_MS = 1e9

test('a standby waits for a call that interrupts it until the call ends', async () => {
  const { work, watch } = start()
  const call = work.begin('call', 'a call')
  expect([watch.signal.aborted, watch.isNeeded]).toEqual([true, true])
  let hasEnded = false
  const ended = watch.ended(LONG_MS).then(() => {
    hasEnded = true
  })
  await Promise.resolve()
  expect(hasEnded).toBe(false)
  call[Symbol.dispose]()
  await ended
  expect(watch.isNeeded).toBe(false)
})

test('a standby does not wait for the bytes of a connection, which need the sandbox all the same', async () => {
  const { work, watch } = start()
  const bytes = work.hold('bytes', 'a connection', undefined)
  expect([watch.signal.aborted, watch.isNeeded]).toEqual([true, true])
  expect(work.list()).toMatchObject([{ kind: 'connection', what: 'a connection' }])
  await watch.ended(LONG_MS)
  bytes[Symbol.dispose]()
  expect(watch.isNeeded).toBe(false)
})

test('a standby waits for a request beside the bytes of a connection', async () => {
  const { work, watch } = start()
  work.hold('bytes', 'a connection', undefined)
  const request = work.hold('connection', 'a request', undefined)
  const ended = watch.ended(LONG_MS)
  request[Symbol.dispose]()
  await ended
  expect(watch.isNeeded).toBe(true)
})
