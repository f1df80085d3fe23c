import { getUint, type Message, setUint } from './message.ts'

/** Where a message of CRIU holds the time left of a timer and its interval, each as seconds and a fraction. */
export interface CountdownFields {
  readonly seconds: number
  readonly fraction: number
  readonly intervalSeconds: number
  readonly intervalFraction: number
  readonly fractionsPerSecond: bigint
}

export interface Countdown {
  /** 0: the timer is not set. */
  readonly leftNs: bigint
  /** 0: it expires once. */
  readonly intervalNs: bigint
}

const NS_PER_S = 1_000_000_000n

export function readCountdown(timer: Message, fields: CountdownFields): Countdown {
  const toNs = (seconds: number, fraction: number) =>
    getUint(timer, seconds) * NS_PER_S + getUint(timer, fraction) * (NS_PER_S / fields.fractionsPerSecond)
  return {
    leftNs: toNs(fields.seconds, fields.fraction),
    intervalNs: toNs(fields.intervalSeconds, fields.intervalFraction),
  }
}

/** Lets time pass for a timer that is set. One that would have expired expires at once. Returns whether it was set. */
export function passTime(timer: Message, fields: CountdownFields, elapsedNs: bigint): boolean {
  const { leftNs } = readCountdown(timer, fields)
  if (leftNs === 0n) return false
  const nsPerFraction = NS_PER_S / fields.fractionsPerSecond
  const isOver = leftNs - elapsedNs < nsPerFraction
  const left = isOver ? nsPerFraction : leftNs - elapsedNs
  setUint(timer, fields.seconds, left / NS_PER_S)
  setUint(timer, fields.fraction, (left % NS_PER_S) / nsPerFraction)
  return true
}
