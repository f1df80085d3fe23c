import { type Countdown, type CountdownFields, passTime, readCountdown } from './countdown.ts'
import type { ImageFile } from './image-file.ts'
import { findMessage, getUint, type Message, setMessage, setUint } from './message.ts'

const FILE = { type: 1, timerfd: 12 } as const
const TYPE_TIMERFD = 17n
const TIMERFD = { settimeFlags: 6, valueSeconds: 7, valueNs: 8, intervalSeconds: 9, intervalNs: 10 } as const
const TFD_TIMER_ABSTIME = 1n
const COUNTDOWN: CountdownFields = {
  seconds: TIMERFD.valueSeconds,
  fraction: TIMERFD.valueNs,
  intervalSeconds: TIMERFD.intervalSeconds,
  intervalFraction: TIMERFD.intervalNs,
  fractionsPerSecond: 1_000_000_000n,
}

/**
 * The kernel reports only the time left of a timerfd, and CRIU restores that as the time that was set. A periodic timer
 * that has expired and was not read has 0 left: set to 0, it would never expire again. And CRIU adds an absolute time
 * to the clock in whole seconds, so the timer would expire too early. This fixes both in files.img.
 */
export function mendTimers(files: ImageFile): void {
  changeTimers(files, (timer) => {
    mendTimer(timer)
    return true
  })
}

export function mendTimer(timer: Message): void {
  const { leftNs, intervalNs } = readCountdown(timer, COUNTDOWN)
  if (leftNs === 0n && intervalNs !== 0n) setUint(timer, TIMERFD.valueNs, 1n)
  if (getUint(timer, TIMERFD.settimeFlags) === TFD_TIMER_ABSTIME) setUint(timer, TIMERFD.settimeFlags, 0n)
}

/** The timerfds that are set. */
export function timersOf(files: ImageFile): Countdown[] {
  const found: Countdown[] = []
  changeTimers(files, (timer) => {
    found.push(readCountdown(timer, COUNTDOWN))
    return false
  })
  return found.filter(({ leftNs }) => leftNs > 0n)
}

/** Lets time pass for all timerfds in files.img. Returns whether any was set. */
export function passTimeOfTimers(files: ImageFile, elapsedNs: bigint): boolean {
  return changeTimers(files, (timer) => passTime(timer, COUNTDOWN, elapsedNs))
}

/** Returns whether `change` has changed any. */
function changeTimers({ records }: ImageFile, change: (timer: Message) => boolean): boolean {
  let isChanged = false
  for (const { message } of records) {
    if (getUint(message, FILE.type) !== TYPE_TIMERFD) continue
    const timer = findMessage(message, FILE.timerfd)
    if (timer === undefined) throw new Error('a timerfd has no entry')
    if (!change(timer)) continue
    setMessage(message, FILE.timerfd, timer)
    isChanged = true
  }
  return isChanged
}
