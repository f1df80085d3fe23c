import type { Snapshot } from '@dormouse/engine'
import type { Sandbox } from './sandbox.ts'

/** A sandbox sleeps for at least this long before a timer wakes it. */
const PAUSE_MS = 1_000
/** What the pause may grow to, at least. */
const LONG_PAUSE_MS = 60_000
/** Timers alone keep a sandbox awake for at most a fifth of the time. */
const IDLE_TIMEOUTS_PER_PAUSE = 4
/** Callers wait for the same restores. */
const WAKES_AT_ONCE = 4
/** After each failure the next attempt waits twice as long. */
const RETRY_MS = 5_000
const RETRY_MAX_MS = 10 * 60_000

/**
 * When a sandbox that falls asleep at `snapshot` wakes for a timer. Code inside decides what its timers say, so each
 * wake by a timer makes the next pause longer, until a caller uses the sandbox.
 */
export function timerWakeAt(
  { row, work, deps }: Sandbox,
  { deadline }: Pick<Snapshot, 'deadline'>,
): number | undefined {
  if (!row.wakeOnTimer || deadline === undefined) return undefined
  const longestMs = Math.max(LONG_PAUSE_MS, row.idleTimeoutMs * IDLE_TIMEOUTS_PER_PAUSE)
  const pauseMs = Math.min(longestMs, PAUSE_MS * 2 ** work.timerWakes)
  return Math.round(Math.max(deadline.getTime(), deps.clock.wallMs() + pauseMs))
}

/** Milliseconds until it wakes for a timer. Undefined: it does not. */
export function untilTimerWake({ row, deps }: Sandbox): number | undefined {
  if (row.state !== 'standby' || row.wakesAt === undefined) return undefined
  return row.wakesAt - deps.clock.wallMs()
}

/** Wakes sandboxes whose timers are due, and those that return to their last checkpoint, a few at a time. */
export class TimerWakes {
  readonly #waking = new Set<Sandbox>()
  readonly #failed = new WeakMap<Sandbox, { count: number; retryAtMs: number }>()

  /** Whether the sandbox should be woken now. */
  isDue(sandbox: Sandbox): boolean {
    const leftMs = untilTimerWake(sandbox) ?? sandbox.checkpoints.untilReturn
    if (leftMs === undefined || leftMs > 0 || this.#waking.size >= WAKES_AT_ONCE) return false
    const { clock, quarantine } = sandbox.deps
    const retryAtMs = this.#failed.get(sandbox)?.retryAtMs ?? Number.NEGATIVE_INFINITY
    return retryAtMs <= clock.monotonicMs() && quarantine.damageOf(sandbox.row) === undefined
  }

  async wake(sandbox: Sandbox): Promise<void> {
    this.#waking.add(sandbox)
    try {
      const isReturn = sandbox.checkpoints.untilReturn !== undefined
      if (isReturn) sandbox.checkpoints.returning()
      await sandbox.wake(isReturn ? 'checkpoint' : 'timer')
      this.#failed.delete(sandbox)
    } catch (error) {
      const count = (this.#failed.get(sandbox)?.count ?? 0) + 1
      const pauseMs = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** (count - 1))
      this.#failed.set(sandbox, { count, retryAtMs: sandbox.deps.clock.monotonicMs() + pauseMs })
      throw error
    } finally {
      this.#waking.delete(sandbox)
    }
  }
}
