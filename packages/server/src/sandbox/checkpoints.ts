import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { WhyAnswer } from '@dormouse/contracts/http'
import { Moment } from '../clock/moment.ts'
import type { Sandbox } from './sandbox.ts'
import { reasonOf } from './sandbox-errors.ts'
import { checkpoint } from './transitions/checkpoint.ts'

/** After each refusal the next attempt waits twice as long: the reason often persists. */
const RETRY_MS = 10_000
const RETRY_MAX_MS = 10 * 60_000
/** New calls wait behind a checkpoint that waits for a call. It gives up before that is noticed. */
const LOCK_WAIT_MS = 500
/** A sandbox that loses its processes again and again waits longer each time before it returns. */
const RETURN_MS = 1_000

/** Saves one sandbox every so often while it runs, as its `checkpointEveryMs` says. */
export class Checkpoints {
  readonly #sandbox: Sandbox
  #last: { readonly at: Moment; readonly pauseMs: number } | undefined
  #refusal: { readonly reason: string; readonly count: number; readonly retryAtMs: number } | undefined
  #returns = 0
  #isTaking = false

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  /** Milliseconds until the next one. Undefined: there is none while it is as it is. */
  get untilNext(): number | undefined {
    const { row, stateMs, deps } = this.#sandbox
    if (!this.#isWanted || row.state !== 'running') return undefined
    const dueMs = row.checkpointEveryMs - Math.min(stateMs, this.#last?.at.elapsedMs ?? stateMs)
    const { retryAtMs = Number.NEGATIVE_INFINITY } = this.#refusal ?? {}
    return Math.max(dueMs, retryAtMs - deps.clock.monotonicMs())
  }

  /** Whether to take one now. Waits for a moment without calls and connections, but not for ever. */
  get isDue(): boolean {
    const leftMs = this.untilNext
    if (leftMs === undefined || leftMs > 0 || this.#isTaking) return false
    return this.#isQuiet || this.#isOverdue
  }

  /** Never disturbs a sandbox that cannot be saved: it runs as before. */
  async take(): Promise<void> {
    const { row, deps } = this.#sandbox
    const burrow = this.#sandbox.runningBurrow()
    if (burrow === undefined || this.#isTaking) return
    this.#isTaking = true
    try {
      // Without it the checkpoint takes longer.
      await deps.engine.prepareSnapshot(burrow).catch((err: unknown) => {
        deps.log.warn({ sandboxId: row.id, err }, 'a checkpoint takes longer')
      })
      // A power cut may undo the last checkpoint that is not on disk. There must be one before it.
      if (row.head !== undefined) await deps.engine.syncSnapshot(row.head)
      if (!this.#isQuiet && !this.#isOverdue) return
      const signal = AbortSignal.timeout(LOCK_WAIT_MS)
      const pauseMs = await this.#sandbox
        .exclusive(async () => {
          // A request may have come while this waited for the lock.
          if (this.#sandbox.work.hasConnection && !this.#isOverdue) return undefined
          return checkpoint(this.#sandbox)
        }, signal)
        .catch((error: unknown) => {
          throw hasErrorCode(error, 'cancelled') && signal.aborted ? callLasts() : error
        })
      if (pauseMs !== undefined) this.#taken(pauseMs)
    } catch (error) {
      this.#refused(error)
      throw error
    } finally {
      this.#isTaking = false
    }
    // It was saved and did not continue.
    if (this.#sandbox.row.state === 'standby' && row.state === 'running')
      await this.#sandbox.wake('checkpoint')
  }

  /** Milliseconds until it wakes because it lost its processes. Undefined: it does not. */
  get untilReturn(): number | undefined {
    const { row, stateMs, deps } = this.#sandbox
    if (!this.#isWanted || row.state !== 'standby' || row.lostSince === undefined) return undefined
    if (row.head === undefined || deps.snapshots.get(row.head)?.kind !== 'full') return undefined
    const pauseMs = this.#returns === 0 ? 0 : Math.min(RETRY_MAX_MS, RETURN_MS * 2 ** this.#returns)
    return pauseMs - stateMs
  }

  /** It wakes because it lost its processes. */
  returning(): void {
    this.#returns += 1
  }

  view(): WhyAnswer['checkpoint'] {
    if (!this.#isWanted) return undefined
    const { clock } = this.#sandbox.deps
    const nextMs = this.untilNext
    return {
      ...(this.#last && { lastAt: iso(this.#last.at.wallMs), pauseMs: Math.round(this.#last.pauseMs) }),
      ...(nextMs !== undefined && { nextAt: iso(clock.wallMs() + Math.max(0, nextMs)) }),
      ...(this.#refusal && { refused: this.#refusal.reason }),
    }
  }

  /** An ephemeral sandbox does not outlive its processes. */
  get #isWanted(): boolean {
    const { checkpointEveryMs, ephemeral } = this.#sandbox.row
    return checkpointEveryMs > 0 && !ephemeral
  }

  get #isQuiet(): boolean {
    const { lock, work } = this.#sandbox
    return lock.isFree && !work.hasConnection
  }

  get #isOverdue(): boolean {
    return (this.untilNext ?? 0) <= -this.#sandbox.row.checkpointEveryMs
  }

  #taken(pauseMs: number): void {
    this.#last = { at: Moment.now(this.#sandbox.deps.clock), pauseMs }
    this.#refusal = undefined
    this.#returns = 0
  }

  #refused(error: unknown): void {
    const count = (this.#refusal?.count ?? 0) + 1
    const pauseMs = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** (count - 1))
    const retryAtMs = this.#sandbox.deps.clock.monotonicMs() + pauseMs
    this.#refusal = { reason: reasonOf(error), count, retryAtMs }
  }
}

function callLasts(): DormouseError {
  return new DormouseError('conflict', 'A call into the sandbox lasted too long to wait for its end.')
}

function iso(ms: number): string {
  return new Date(Math.round(ms)).toISOString()
}
