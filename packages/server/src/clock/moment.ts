import type { ServerClock } from './server-clock.ts'

/** Who wrote the time of a row. */
export type Writer = 'this server' | 'an earlier server' | 'another host'

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

  /**
   * A point in time that another host has recorded, while this server may have run already. Goes by the wall clocks of
   * both up to now, and by the elapsed time from now on.
   */
  static elsewhere(clock: ServerClock, wallMs: number): Moment {
    const since = Moment.ago(clock, Math.max(0, clock.confirmedWallMs() - wallMs))
    return new Moment(wallMs, () => since.elapsedMs)
  }

  /** A point in time in a row that this server has just made, or has got from somewhere. */
  static writtenBy(writer: Writer, clock: ServerClock, wallMs: number): Moment {
    if (writer === 'this server') return Moment.now(clock)
    return writer === 'another host' ? Moment.elsewhere(clock, wallMs) : Moment.recorded(clock, wallMs)
  }

  get elapsedMs(): number {
    return this.#elapsedMs()
  }
}
