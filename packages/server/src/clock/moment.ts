import type { ServerClock } from './server-clock.ts'

/**
 * A point in time: the wall-clock time for records and views, and how long ago it was, whatever the wall clock does
 * since.
 */
export class Moment {
  readonly wallMs: number
  readonly #elapsedMs: () => number

  private constructor(wallMs: number, elapsedMs: () => number) {
    this.wallMs = wallMs
    this.#elapsedMs = elapsedMs
  }

  static now(clock: ServerClock): Moment {
    return Moment.ago(clock, 0)
  }

  static ago(clock: ServerClock, elapsedMs: number): Moment {
    const atMs = clock.monotonicMs() - elapsedMs
    return new Moment(clock.wallMs() - elapsedMs, () => clock.monotonicMs() - atMs)
  }

  /** A point in time that an earlier server recorded. */
  static recorded(clock: ServerClock, wallMs: number): Moment {
    return new Moment(wallMs, () => clock.sinceRecorded(wallMs))
  }

  get elapsedMs(): number {
    return this.#elapsedMs()
  }
}
