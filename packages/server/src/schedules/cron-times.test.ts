import { expect, test } from 'vitest'
import { cronTimes, dueNow } from './cron-times.ts'

const at = (text: string) => Date.parse(text)
const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString())

function after(cron: string, timezone: string, from: string, count: number): (string | undefined)[] {
  const times = cronTimes(cron, timezone)
  const found: (string | undefined)[] = []
  for (let last: number | undefined = at(from); found.length < count; ) {
    last = last === undefined ? undefined : times.next(last)
    found.push(iso(last))
  }
  return found
}

test('times are those of the zone, in summer and in winter', () => {
  expect(after('30 2 * * *', 'Europe/Berlin', '2026-01-10T00:00:00Z', 1)).toEqual([
    '2026-01-10T01:30:00.000Z',
  ])
  expect(after('30 2 * * *', 'Europe/Berlin', '2026-07-10T00:00:00Z', 1)).toEqual([
    '2026-07-10T00:30:00.000Z',
  ])
})

test('a time that does not exist on the day when clocks go forward fires once', () => {
  const found = after('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', 2)
  expect(found).toEqual(['2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z'])
})

test('a time that exists twice when clocks go back fires once', () => {
  const found = after('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', 2)
  expect(found).toEqual(['2026-10-25T00:30:00.000Z', '2026-10-26T01:30:00.000Z'])
})

test.each([
  ['a field that is too large', '61 * * * *', 'UTC'],
  ['words', 'now and then', 'UTC'],
  ['an unknown zone', '* * * * *', 'Mars/Olympus'],
])('%s is refused', (_what, cron, timezone) => {
  expect(() => cronTimes(cron, timezone)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
})

const hourly = cronTimes('0 * * * *', 'UTC')
const due = (now: string, missed: 'skip' | 'once') => {
  const { fireAt, nextAt } = dueNow(hourly, at('2026-01-01T01:00:00Z'), at(now), missed)
  return [iso(fireAt), iso(nextAt)]
}

test('a time that has just come fires', () => {
  for (const missed of ['skip', 'once'] as const)
    expect(due('2026-01-01T01:00:00.500Z', missed)).toEqual([
      '2026-01-01T01:00:00.000Z',
      '2026-01-01T02:00:00.000Z',
    ])
})

test('of many missed times none fires, or the latest', () => {
  expect(due('2026-01-05T10:30:00Z', 'skip')).toEqual([undefined, '2026-01-05T11:00:00.000Z'])
  expect(due('2026-01-05T10:30:00Z', 'once')).toEqual([
    '2026-01-05T10:00:00.000Z',
    '2026-01-05T11:00:00.000Z',
  ])
})

test('of missed times before one that has just come, only that one fires', () => {
  const found = due('2026-01-05T10:00:01Z', 'skip')
  expect(found).toEqual(['2026-01-05T10:00:00.000Z', '2026-01-05T11:00:00.000Z'])
})

test('years of missed seconds are settled at once', () => {
  const seconds = cronTimes('* * * * * *', 'UTC')
  const { fireAt, nextAt } = dueNow(seconds, at('2026-01-01T00:00:00Z'), at('2030-01-01T00:00:00.5Z'), 'once')
  expect([iso(fireAt), iso(nextAt)]).toEqual(['2030-01-01T00:00:00.000Z', '2030-01-01T00:00:01.000Z'])
})

test('a refusal names what is wrong in words of ours', () => {
  expect(() => cronTimes('* * * * *', 'Mars/Base')).toThrow(/^timezone: "Mars\/Base" is not a time zone$/)
  expect(() => cronTimes('61 * * * *', 'UTC')).toThrow(/^cron: Invalid value for minute: 61$/)
})
