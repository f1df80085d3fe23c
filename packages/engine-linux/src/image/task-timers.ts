import { WireType } from '@bufbuild/protobuf/wire'
import { type Countdown, type CountdownFields, passTime, readCountdown } from './countdown.ts'
import {
  decodeMessage,
  encodeMessage,
  findMessage,
  getAllBytes,
  getUint,
  type Message,
  setMessage,
} from './message.ts'

const CORE_TASK = 3
const TASK_TIMERS = 7
const TIMERS = { real: 1, posix: 4 } as const
const POSIX_CLOCK = 2
/** Of `setitimer` and `alarm`. */
const ITIMER: CountdownFields = {
  seconds: 3,
  fraction: 4,
  intervalSeconds: 1,
  intervalFraction: 2,
  fractionsPerSecond: 1_000_000n,
}
/** Of `timer_settime`. */
const POSIX: CountdownFields = {
  seconds: 9,
  fraction: 10,
  intervalSeconds: 7,
  intervalFraction: 8,
  fractionsPerSecond: 1_000_000_000n,
}
/** CLOCK_REALTIME, _MONOTONIC, _BOOTTIME and the alarm clocks. Clocks of CPU time stand still during a sleep. */
const CLOCKS: ReadonlySet<bigint> = new Set([0n, 1n, 7n, 8n, 9n])

/** The timers of one task that are set: `setitimer`, `alarm` and `timer_settime`. `core` is its core image. */
export function taskTimersOf(core: Message): Countdown[] {
  const timers = findTimers(core)
  if (timers === undefined) return []
  const real = findMessage(timers, TIMERS.real)
  return [
    ...(real === undefined ? [] : [readCountdown(real, ITIMER)]),
    ...getAllBytes(timers, TIMERS.posix)
      .map(decodeMessage)
      .filter(followsTime)
      .map((timer) => readCountdown(timer, POSIX)),
  ].filter(({ leftNs }) => leftNs > 0n)
}

/** Lets time pass for the timers of one task. Returns whether any was set. */
export function passTimeOfTask(core: Message, elapsedNs: bigint): boolean {
  const task = findMessage(core, CORE_TASK)
  const timers = findTimers(core)
  if (task === undefined || timers === undefined) return false
  let isChanged = false
  const changed = timers.map((field) => {
    if (field.type !== WireType.LengthDelimited) return field
    const isReal = field.no === TIMERS.real
    if (!isReal && field.no !== TIMERS.posix) return field
    const timer = decodeMessage(field.value)
    if (!isReal && !followsTime(timer)) return field
    isChanged = passTime(timer, isReal ? ITIMER : POSIX, elapsedNs) || isChanged
    return { ...field, value: encodeMessage(timer) }
  })
  if (!isChanged) return false
  setMessage(task, TASK_TIMERS, changed)
  setMessage(core, CORE_TASK, task)
  return true
}

function findTimers(core: Message): Message | undefined {
  const task = findMessage(core, CORE_TASK)
  return task && findMessage(task, TASK_TIMERS)
}

function followsTime(timer: Message): boolean {
  return CLOCKS.has(getUint(timer, POSIX_CLOCK))
}
