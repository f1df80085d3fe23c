import { uptime } from 'node:os'

/** The clocks of the host. */
export interface Clock {
  /** Milliseconds since the epoch, for records and views. May jump at any time, in either direction. */
  readonly wallMs: () => number
  /** For durations: never jumps. Stands still while the host is suspended. */
  readonly monotonicMs: () => number
  /** Like `monotonicMs` with another origin, but also counts while the host is suspended. Coarse. */
  readonly bootMs: () => number
}

export const hostClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  bootMs: () => uptime() * 1000,
}
