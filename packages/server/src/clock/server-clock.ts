import type { Log } from '../log.ts'
import type { Clock } from './clock.ts'

/** A wall clock that is this far ahead of the elapsed time was set, and may be set back soon. */
const JUMP_MS = 3_600_000
/**
 * How long a jump forward must last before sandboxes expire by it. Time servers correct a wrong clock within minutes,
 * and an operator who mistypes a date sees the warning.
 */
const CONFIRMATION_MS = 10 * 60_000
/** Smaller differences come from the coarse clock that counts while the host is suspended. */
const SUSPENDED_MIN_MS = 1_000

export interface ServerClockOptions {
  readonly clock: Clock
  /** The last wall-clock time that an earlier server recorded. Undefined: there was no earlier server. */
  readonly lastRecordedMs: number | undefined
  readonly log: Log
}

/**
 * The server's time. Durations are counted by a clock that does not jump. The wall clock is for records and views;
 * deletions by the wall clock wait until a jump forward is confirmed: see
 * docs/decisions/0040-clocks-and-deadlines.md.
 */
export class ServerClock implements Pick<Clock, 'wallMs' | 'monotonicMs'> {
  readonly #clock: Clock
  readonly #log: Log
  readonly #startedAtMs: number
  readonly #bootAheadMs: number
  readonly #lastRecordedMs: number
  #suspendedMs = 0
  /** Offset from the monotonic clock to the confirmed wall clock. */
  #offsetMs: number
  #jump: { readonly sinceMs: number; readonly byMs: number } | undefined
  /** How long no server ran before this one. Undefined while only an unconfirmed wall clock says so. */
  #downMs: number | undefined

  constructor({ clock, lastRecordedMs, log }: ServerClockOptions) {
    this.#clock = clock
    this.#log = log
    this.#startedAtMs = clock.monotonicMs()
    this.#bootAheadMs = clock.bootMs() - this.#startedAtMs
    const wallMs = clock.wallMs()
    this.#lastRecordedMs = lastRecordedMs ?? wallMs
    this.#offsetMs = this.#lastRecordedMs - this.#startedAtMs
    if (wallMs < this.#lastRecordedMs)
      log.warn(
        { wallClock: isoTime(wallMs), lastRecorded: isoTime(this.#lastRecordedMs) },
        'the wall clock is behind the time that the last server recorded: the time without a server does not count',
      )
    this.look()
  }

  readonly wallMs = (): number => this.#clock.wallMs()

  readonly monotonicMs = (): number => this.#clock.monotonicMs() + this.#suspendedMs

  /** The wall clock for deletions: a jump forward of more than an hour counts only after ten minutes. */
  readonly confirmedWallMs = (): number => this.monotonicMs() + this.#offsetMs

  /** Whether the time without a server is known. */
  get knowsDownTime(): boolean {
    return this.#downMs !== undefined
  }

  /** How long ago a recorded time was, at least. Grows when a long time without a server is confirmed. */
  sinceRecorded(recordedMs: number): number {
    const before = Math.max(0, this.#lastRecordedMs + (this.#downMs ?? 0) - recordedMs)
    return before + (this.monotonicMs() - this.#startedAtMs)
  }

  /** Checks for jumps and suspensions. Call it every second or two. */
  look(): void {
    const suspendedMs = this.#clock.bootMs() - this.#clock.monotonicMs() - this.#bootAheadMs
    if (suspendedMs - this.#suspendedMs >= SUSPENDED_MIN_MS) this.#suspendedMs = suspendedMs
    const nowMs = this.monotonicMs()
    const byMs = this.wallMs() - Math.round(this.confirmedWallMs())
    if (byMs <= JUMP_MS) {
      if (this.#jump !== undefined)
        this.#log.info({}, 'the wall clock was set back to the right time: no sandbox expired by its jump')
      else if (byMs < -JUMP_MS && this.knowsDownTime) this.#log.warn({ byMs }, 'the wall clock was set back')
      this.#believe(byMs)
      return
    }
    if (this.#jump === undefined || Math.abs(byMs - this.#jump.byMs) > JUMP_MS) {
      this.#jump = { sinceMs: nowMs, byMs }
      this.#log.warn(
        { byMs, confirmationMs: CONFIRMATION_MS },
        this.knowsDownTime
          ? 'the wall clock jumped forward: no sandbox expires by it until the jump has lasted ten minutes'
          : 'the last server recorded its time long ago: no sandbox expires until the wall clock has been stable for ten minutes',
      )
    } else if (nowMs - this.#jump.sinceMs >= CONFIRMATION_MS) {
      this.#log.info({ byMs }, 'the jump of the wall clock is confirmed')
      this.#believe(byMs)
    }
  }

  #believe(byMs: number): void {
    this.#jump = undefined
    this.#offsetMs += byMs
    this.#downMs ??= Math.max(0, byMs)
  }
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
