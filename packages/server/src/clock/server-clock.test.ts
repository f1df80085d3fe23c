import { beforeEach, describe, expect, test } from 'vitest'
import { Moment } from './moment.ts'
import { ServerClock } from './server-clock.ts'
import { FakeClock, serverClock } from './testing/fake-clock.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

let host: FakeClock
beforeEach(() => {
  host = new FakeClock()
})

/** As the watch does: time passes, and the clock is looked at now and then. */
function pass(clock: ServerClock, ms: number): void {
  for (let left = ms; left > 0; left -= 30_000) {
    host.pass(Math.min(left, 30_000))
    clock.look()
  }
}

describe('a moment', () => {
  test.each([-DAY_MS, DAY_MS])('is as long ago as before when the wall clock is set by %d ms', (byMs) => {
    const clock = serverClock(host)
    const moment = Moment.now(clock)
    const { wallMs } = moment
    pass(clock, 5 * MINUTE_MS)
    host.wall += byMs
    pass(clock, 20 * MINUTE_MS)
    expect(moment.elapsedMs).toBe(25 * MINUTE_MS)
    expect(moment.wallMs).toBe(wallMs)
  })

  test('is longer ago by the time in which the host was suspended', () => {
    const clock = serverClock(host)
    const moment = Moment.now(clock)
    host.suspend(8 * HOUR_MS)
    clock.look()
    expect(moment.elapsedMs).toBe(8 * HOUR_MS)
    // Nothing has jumped: the wall clock says the same.
    expect(clock.confirmedWallMs()).toBe(host.wall)
  })
})

describe('the confirmed wall clock', () => {
  test('follows small steps and steps back at once', () => {
    const clock = serverClock(host)
    for (const byMs of [30 * MINUTE_MS, -DAY_MS]) {
      host.wall += byMs
      clock.look()
      expect(clock.confirmedWallMs()).toBe(host.wall)
    }
  })

  test('follows a jump forward once it has lasted ten minutes', () => {
    const clock = serverClock(host)
    const before = host.wall
    host.wall += DAY_MS
    clock.look()
    pass(clock, 9 * MINUTE_MS)
    expect(clock.confirmedWallMs()).toBe(before + 9 * MINUTE_MS)
    pass(clock, 2 * MINUTE_MS)
    expect(clock.confirmedWallMs()).toBe(host.wall)
  })

  test('has never followed a jump forward that was taken back', () => {
    const clock = serverClock(host)
    host.wall += DAY_MS
    clock.look()
    pass(clock, 5 * MINUTE_MS)
    host.wall -= DAY_MS
    pass(clock, 20 * MINUTE_MS)
    expect(clock.confirmedWallMs()).toBe(host.wall)
  })

  test('waits anew when it jumps again', () => {
    const clock = serverClock(host)
    const before = host.wall
    for (let jumps = 0; jumps < 3; jumps += 1) {
      host.wall += DAY_MS
      pass(clock, 8 * MINUTE_MS)
    }
    expect(clock.confirmedWallMs()).toBe(before + 24 * MINUTE_MS)
  })
})

describe('what another host wrote down while this server ran', () => {
  test('is as long ago as it says, and ages from then on', () => {
    const clock = serverClock(host)
    pass(clock, DAY_MS)
    const moment = Moment.elsewhere(clock, host.wall - 5 * MINUTE_MS)
    pass(clock, MINUTE_MS)
    host.wall -= HOUR_MS
    expect(moment.elapsedMs).toBe(6 * MINUTE_MS)
  })

  test('is not in the future when the clock of that host is ahead', () => {
    const clock = serverClock(host)
    pass(clock, DAY_MS)
    const moment = Moment.elsewhere(clock, host.wall + HOUR_MS)
    pass(clock, MINUTE_MS)
    expect(moment.elapsedMs).toBe(MINUTE_MS)
  })
})

describe('what an earlier server wrote down', () => {
  test('has aged by the time in which there was no server, if that was short', () => {
    const recordedMs = host.wall
    host.pass(HOUR_MS / 2)
    const clock = serverClock(host, recordedMs + 10 * MINUTE_MS)
    host.pass(MINUTE_MS)
    expect(clock.sinceRecorded(recordedMs)).toBe(31 * MINUTE_MS)
  })

  test('has aged by a long time without a server only once that is confirmed', () => {
    const recordedMs = host.wall
    host.pass(7 * DAY_MS)
    const clock = serverClock(host, recordedMs)
    expect(clock.knowsDownTime).toBe(false)
    pass(clock, 5 * MINUTE_MS)
    expect(clock.sinceRecorded(recordedMs)).toBe(5 * MINUTE_MS)
    expect(clock.confirmedWallMs()).toBe(recordedMs + 5 * MINUTE_MS)
    pass(clock, 6 * MINUTE_MS)
    expect(clock.knowsDownTime).toBe(true)
    expect(clock.sinceRecorded(recordedMs)).toBe(7 * DAY_MS + 11 * MINUTE_MS)
    expect(clock.confirmedWallMs()).toBe(host.wall)
  })

  test('has not aged by a wrong wall clock that is corrected after the start', () => {
    const recordedMs = host.wall
    host.pass(MINUTE_MS)
    host.wall += 365 * DAY_MS
    const clock = serverClock(host, recordedMs)
    pass(clock, 5 * MINUTE_MS)
    host.wall -= 365 * DAY_MS
    pass(clock, 20 * MINUTE_MS)
    expect(clock.sinceRecorded(recordedMs)).toBe(26 * MINUTE_MS)
  })

  test('has not aged, and is not in the future, when the wall clock is behind', () => {
    const recordedMs = host.wall
    host.wall -= DAY_MS
    const clock = serverClock(host, recordedMs)
    expect(clock.knowsDownTime).toBe(true)
    pass(clock, MINUTE_MS)
    expect(clock.sinceRecorded(recordedMs)).toBe(MINUTE_MS)
    expect(clock.sinceRecorded(recordedMs - HOUR_MS)).toBe(HOUR_MS + MINUTE_MS)
  })
})

test('jumps are logged, each once', () => {
  const messages: string[] = []
  const note = (_fields: object, message: string) => void messages.push(message)
  const clock = new ServerClock({
    clock: host,
    lastRecordedMs: undefined,
    log: { info: note, warn: note, error: note },
  })
  host.wall += DAY_MS
  pass(clock, 12 * MINUTE_MS)
  host.wall -= DAY_MS
  pass(clock, 12 * MINUTE_MS)
  expect(messages).toMatchObject(
    [/jumped forward/, /is confirmed/, /set back/].map((one) => expect.stringMatching(one)),
  )
})
