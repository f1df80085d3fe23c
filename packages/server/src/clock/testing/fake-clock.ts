import type { Clock } from '../clock.ts'
import { ServerClock } from '../server-clock.ts'

const SILENT = { info() {}, warn() {}, error() {} }

/** A clock that a test moves: time passes with `pass`, and `wall` is set like a wall clock. */
export class FakeClock implements Clock {
  wall: number
  monotonic = 1_000
  boot = 50_000

  constructor(wall = Date.UTC(2026, 0, 1)) {
    this.wall = wall
  }

  readonly wallMs = () => this.wall
  readonly monotonicMs = () => this.monotonic
  readonly bootMs = () => this.boot

  pass(ms: number): void {
    this.wall += ms
    this.monotonic += ms
    this.boot += ms
  }

  suspend(ms: number): void {
    this.wall += ms
    this.boot += ms
  }
}

export function serverClock(clock: Clock, lastRecordedMs?: number): ServerClock {
  return new ServerClock({ clock, lastRecordedMs, log: SILENT })
}
