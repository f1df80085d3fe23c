import type { ServerClock } from '../clock/server-clock.ts'
import type { Sandbox } from './sandbox.ts'
import { untilTimerWake } from './timer-wakes.ts'
import { untilExpiry, untilStored } from './why.ts'

/** A clock that moved by less does not matter to what is due at a time of day. */
const CLOCK_MOVED_MS = 500
/** Every sandbox is looked at this often, should its time have moved in a way that nothing here has noticed. */
const LOOK_AFTER_MS = 60_000

/**
 * When the idle watch has to look at sleeping sandboxes. Thousands sleep, and most of them have nothing due for hours
 * or for ever: a round costs what is due, not what exists.
 */
export class Agenda {
  readonly #clock: ServerClock
  /** By the monotonic clock. */
  readonly #lookAt = new Map<Sandbox, number>()
  #earliest = Number.POSITIVE_INFINITY
  #ahead: ClockOffsets

  constructor(clock: ServerClock) {
    this.#clock = clock
    this.#ahead = offsetsOf(clock)
  }

  /** The sandbox has changed, or was looked at. */
  put(sandbox: Sandbox): void {
    const leftMs = untilDue(sandbox)
    if (leftMs === undefined) {
      this.#lookAt.delete(sandbox)
      return
    }
    const at = this.#clock.monotonicMs() + Math.min(leftMs, LOOK_AFTER_MS)
    this.#lookAt.set(sandbox, at)
    this.#earliest = Math.min(this.#earliest, at)
  }

  remove(sandbox: Sandbox): void {
    this.#lookAt.delete(sandbox)
  }

  /** Milliseconds until a sandbox has to be looked at. */
  get untilNextMs(): number {
    return this.#earliest - this.#clock.monotonicMs()
  }

  /** Those to look at now. Each must be `put` again afterwards. */
  takeDue(): readonly Sandbox[] {
    const hasClockMoved = this.#hasClockMoved()
    const now = this.#clock.monotonicMs()
    if (this.#earliest > now && !hasClockMoved) return []
    const due: Sandbox[] = []
    let earliest = Number.POSITIVE_INFINITY
    for (const [sandbox, at] of this.#lookAt) {
      if (at <= now || hasClockMoved) due.push(sandbox)
      else if (at < earliest) earliest = at
    }
    for (const sandbox of due) this.#lookAt.delete(sandbox)
    this.#earliest = earliest
    return due
  }

  #hasClockMoved(): boolean {
    const [before, now] = [this.#ahead, offsetsOf(this.#clock)]
    const hasMoved =
      Math.abs(now.wallMs - before.wallMs) >= CLOCK_MOVED_MS ||
      Math.abs(now.confirmedMs - before.confirmedMs) >= CLOCK_MOVED_MS ||
      now.knowsDownTime !== before.knowsDownTime
    if (hasMoved) this.#ahead = now
    return hasMoved
  }
}

interface ClockOffsets {
  readonly wallMs: number
  readonly confirmedMs: number
  readonly knowsDownTime: boolean
}

function offsetsOf({ wallMs, confirmedWallMs, monotonicMs, knowsDownTime }: ServerClock): ClockOffsets {
  const now = monotonicMs()
  return { wallMs: wallMs() - now, confirmedMs: confirmedWallMs() - now, knowsDownTime }
}

/** Milliseconds until something happens to a sleeping sandbox by itself. Undefined: only a caller changes it. */
function untilDue(sandbox: Sandbox): number | undefined {
  const { row, pendingWrites, checkpoints } = sandbox
  if (row.state !== 'standby') return undefined
  if (!pendingWrites.isEmpty) return 0
  const times = [
    untilExpiry(sandbox),
    untilStored(sandbox),
    untilTimerWake(sandbox),
    checkpoints.untilReturn,
  ].filter((time) => time !== undefined)
  return times.length === 0 ? undefined : Math.max(0, Math.min(...times))
}
