import type { ImageFile } from './image-file.ts'
import { findMessage, getUint, type Message, setMessage, setUint } from './message.ts'

const FILE = { type: 1, timerfd: 12 } as const
const TYPE_TIMERFD = 17n
const TIMERFD = { settimeFlags: 6, valueSeconds: 7, valueNs: 8, intervalSeconds: 9, intervalNs: 10 } as const
const TFD_TIMER_ABSTIME = 1n

/**
 * The kernel reports only the time left of a timerfd, and CRIU restores that as the time that was set. A periodic timer
 * that has expired and was not read has 0 left: set to 0, it would never expire again. And CRIU adds an absolute time
 * to the clock in whole seconds, so the timer would expire too early. This fixes both in files.img.
 */
export function mendTimers({ records }: ImageFile): void {
  for (const { message } of records) {
    if (getUint(message, FILE.type) !== TYPE_TIMERFD) continue
    const timer = findMessage(message, FILE.timerfd)
    if (timer === undefined) throw new Error('a timerfd has no entry')
    mendTimer(timer)
    setMessage(message, FILE.timerfd, timer)
  }
}

export function mendTimer(timer: Message): void {
  const isZero = (seconds: number, ns: number) => getUint(timer, seconds) === 0n && getUint(timer, ns) === 0n
  const isDue = isZero(TIMERFD.valueSeconds, TIMERFD.valueNs)
  const isPeriodic = !isZero(TIMERFD.intervalSeconds, TIMERFD.intervalNs)
  if (isDue && isPeriodic) setUint(timer, TIMERFD.valueNs, 1n)
  if (getUint(timer, TIMERFD.settimeFlags) === TFD_TIMER_ABSTIME) setUint(timer, TIMERFD.settimeFlags, 0n)
}
