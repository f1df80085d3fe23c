import { DormouseError } from '@dormouse/contracts'
import { Cron } from 'croner'

/** A time that is later than this was missed. */
const MISSED_AFTER_MS = 60_000
/** Times that are looked at one by one before the search jumps ahead. */
const STEPS_MAX = 200
/** The latest time is searched in the shortest of these that has one: a minute, an hour, a day, a month. */
const WINDOWS_MS = [60_000, 3_600_000, 86_400_000, 31 * 86_400_000]

export interface CronTimes {
  /** The first time after this one, in milliseconds since the epoch. */
  next(afterMs: number): number | undefined
}

/**
 * The times of a cron expression in a time zone. A local time that does not exist on the day when clocks go forward
 * fires once, at the moment when they do; one that exists twice when they go back fires the first time only. Throws
 * `invalid_argument`.
 */
export function cronTimes(cron: string, timezone: string): CronTimes {
  const compiled = compile(cron, timezone)
  return { next: (afterMs) => compiled.nextRun(new Date(afterMs))?.getTime() }
}

export interface Due {
  /** The time to fire for. */
  readonly fireAt: number | undefined
  /** Times up to this one are settled. */
  readonly settledAt: number
  readonly nextAt: number | undefined
}

/**
 * What to do when `nextAt` has come. Of several times that have passed, only the latest can fire: on time, or late if
 * `missed` is `once`.
 */
export function dueNow(times: CronTimes, nextAt: number, nowMs: number, missed: 'skip' | 'once'): Due {
  let latest = nextAt
  for (let steps = 0; ; steps += 1) {
    const following = times.next(latest)
    if (following === undefined || following > nowMs) break
    latest = steps === STEPS_MAX ? closeTo(times, following, nowMs) : following
  }
  const isMissed = nowMs - latest > MISSED_AFTER_MS
  return {
    fireAt: !isMissed || missed === 'once' ? latest : undefined,
    settledAt: latest,
    nextAt: times.next(latest),
  }
}

/** A time that has few others between it and now. */
function closeTo(times: CronTimes, from: number, nowMs: number): number {
  for (const windowMs of WINDOWS_MS) {
    const recent = times.next(nowMs - windowMs)
    if (recent !== undefined && recent <= nowMs) return Math.max(from, recent)
  }
  return from
}

function compile(cron: string, timezone: string): Cron {
  if (!isTimeZone(timezone))
    throw new DormouseError('invalid_argument', `timezone: "${timezone}" is not a time zone`, {
      details: { field: 'timezone' },
      hint: 'Use a name of the IANA database, such as Europe/Berlin or UTC.',
    })
  try {
    const compiled = new Cron(cron, { timezone, paused: true })
    compiled.nextRun(new Date(0))
    return compiled
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    // The parser names its own classes.
    const problem = text.replace(/^Cron\w*: /, '')
    throw new DormouseError('invalid_argument', `cron: ${problem}`, {
      hint: 'Use five fields such as "30 2 * * *" and a time zone such as Europe/Berlin.',
    })
  }
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
