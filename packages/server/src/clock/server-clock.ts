import type { Log } from '../log.ts'
import type { Clock } from './clock.ts'

/** A wall clock that is this far ahead of the time that has passed was set, and may be set back as soon as somebody notices. */
const JUMP_MS = 3_600_000
/**
 * How long a jump forward has to last before anything expires by it. Time servers correct a host that starts with a wrong clock within
 * minutes, and an operator who mistypes a date sees the warning.
 */
const CONFIRMATION_MS = 10 * 60_000
/** Less is the coarseness of the clock that counts while the host is suspended. */
const SUSPENDED_MIN_MS = 1_000

export interface ServerClockOptions {
  readonly clock: Clock
  /** What the wall clock said when an earlier server last wrote it down. undefined: there was none. */
  readonly lastRecordedMs: number | undefined
  readonly log: Log
}

/**
 * The server's time. Durations are counted by a clock that does not jump. The wall clock is for what is written and shown, and what is deleted
 * by it waits until a jump forward is confirmed: see docs/decisions/0040-clocks-and-deadlines.md.
 */
export class ServerClock implements Pick<Clock, 'wallMs' | 'monotonicMs'> {
  readonly #clock: Clock
  readonly #log: Log
  readonly #startedAtMs: number
  readonly #bootAheadMs: number
  readonly #lastRecordedMs: number
  #suspendedMs = 0
  /** From the monotonic clock to the wall clock, as far as that is believed. */
  #offsetMs: number
  #jump: { readonly sinceMs: number; readonly byMs: number } | undefined
  /** How long there was no server before this one; undefined while the wall clock is the only one to say so, and says much. */
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
        'the wall clock is behind the time that the last server wrote down: nothing has aged while there was no server',
      )
    this.look()
  }

  readonly wallMs = (): number => this.#clock.wallMs()

  readonly monotonicMs = (): number => this.#clock.monotonicMs() + this.#suspendedMs

  /** The wall clock for what is deleted: a jump forward of more than an hour counts only after it has lasted ten minutes. */
  readonly confirmedWallMs = (): number => this.monotonicMs() + this.#offsetMs

  /** Whether it is known how long there was no server. */
  get knowsDownTime(): boolean {
    return this.#downMs !== undefined
  }

  /** How long ago something was that an earlier server wrote down: at least so long, and more once a long time without a server is confirmed. */
  sinceRecorded(recordedMs: number): number {
    const before = Math.max(0, this.#lastRecordedMs + (this.#downMs ?? 0) - recordedMs)
    return before + (this.monotonicMs() - this.#startedAtMs)
  }

  /** Notices jumps and suspensions. To be called about every second. */
  look(): void {
    const suspendedMs = this.#clock.bootMs() - this.#clock.monotonicMs() - this.#bootAheadMs
    if (suspendedMs - this.#suspendedMs >= SUSPENDED_MIN_MS) this.#suspendedMs = suspendedMs
    const nowMs = this.monotonicMs()
    const byMs = this.wallMs() - Math.round(this.confirmedWallMs())
    if (byMs <= JUMP_MS) {
      if (this.#jump !== undefined)
        this.#log.info({}, 'the wall clock is back: nothing has expired by its jump')
      else if (byMs < -JUMP_MS && this.knowsDownTime) this.#log.warn({ byMs }, 'the wall clock was set back')
      this.#believe(byMs)
      return
    }
    if (this.#jump === undefined || Math.abs(byMs - this.#jump.byMs) > JUMP_MS) {
      this.#jump = { sinceMs: nowMs, byMs }
      this.#log.warn(
        { byMs, confirmationMs: CONFIRMATION_MS },
        this.knowsDownTime
          ? 'the wall clock jumped forward: nothing expires by it until the jump has lasted a while'
          : 'the last server wrote down its time long ago: nothing expires until the wall clock has shown the same for a while',
      )
    } else if (nowMs - this.#jump.sinceMs >= CONFIRMATION_MS) {
      this.#log.info({ byMs }, 'the wall clock is believed')
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
