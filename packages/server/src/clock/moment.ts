import type { ServerClock } from './server-clock.ts'

/** When something happened: as the wall clock said for what is written and shown, and how long ago whatever becomes of that clock. */
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

  /** One that an earlier server wrote down. */
  static recorded(clock: ServerClock, wallMs: number): Moment {
    return new Moment(wallMs, () => clock.sinceRecorded(wallMs))
  }

  get elapsedMs(): number {
    return this.#elapsedMs()
  }
}
