import { uptime } from 'node:os'

/** What the host says about time. */
export interface Clock {
  /** Milliseconds since the epoch, for what is written down and shown. May jump at any time, in either direction. */
  readonly wallMs: () => number
  /** For durations: never jumps. Stands still while the host is suspended. */
  readonly monotonicMs: () => number
  /** As `monotonicMs` from another beginning, and counts while the host is suspended. Coarse. */
  readonly bootMs: () => number
}

export const hostClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  bootMs: () => uptime() * 1000,
}
