import { Limiter, type Refusal } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { HostRoom } from '../host/host-room.ts'

export interface StartLimits {
  /** Beyond what keeps the CPUs busy, more restores at once only make each slower. */
  readonly restoresAtOnce: number
  readonly queueLength: number
  readonly queueMs: number
  readonly minFreeMemoryBytes: number
  readonly minFreeDiskBytes: number
}

/**
 * Bounds how many burrows start at once. Every create, wake, fork and rollback comes here. Owners take turns, so that
 * an owner who wakes a hundred sandboxes does not delay the others. A refusal says when to try again, and nothing has
 * changed.
 */
export class StartLimiter {
  readonly #limits: StartLimits
  readonly #room: HostRoom
  readonly #limiter: Limiter

  constructor(limits: StartLimits, room: HostRoom) {
    this.#limits = limits
    this.#room = room
    this.#limiter = new Limiter({
      concurrency: limits.restoresAtOnce,
      maxQueued: limits.queueLength,
      maxWaitMs: limits.queueMs,
      refuse,
    })
  }

  get load(): { running: number; waiting: number } {
    return { running: this.#limiter.running, waiting: this.#limiter.waiting }
  }

  /** A new sandbox or snapshot needs free disk space; a wake does not. */
  async requireDisk(): Promise<void> {
    const free = await this.#room.freeDiskBytes()
    if (free >= this.#limits.minFreeDiskBytes) return
    throw new DormouseError('overloaded', 'The host is low on disk space.', {
      hint: 'Delete sandboxes or snapshots, or give the data directory more room.',
      details: { reason: 'disk', retryAfterMs: 60_000 },
    })
  }

  async requireMemory(): Promise<void> {
    const free = await this.#room.freeMemoryBytes()
    if (free >= this.#limits.minFreeMemoryBytes) return
    throw new DormouseError('overloaded', 'The host is low on memory.', {
      hint: 'Try again when other sandboxes have gone to sleep.',
      details: { reason: 'memory', retryAfterMs: 5_000 },
    })
  }

  /** `start` must not call this limiter again. */
  async run<Value>(owner: string, start: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    await this.requireMemory()
    return this.#limiter.run(start, { key: owner, signal })
  }

  /**
   * For a sandbox that was awake a moment ago and is on disk only because it is being saved or forked. It goes ahead
   * of all others and is never refused. There are never more of these than sandboxes that ran.
   */
  runUrgent<Value>(start: () => Promise<Value>): Promise<Value> {
    return this.#limiter.run(start, { isUrgent: true })
  }
}

function refuse(refusal: Refusal): DormouseError {
  if (refusal === 'aborted') return new DormouseError('cancelled', 'The caller gave up waiting.')
  const message =
    refusal === 'queue_full'
      ? 'Too many sandboxes are waiting to start.'
      : 'The host is too busy to start this sandbox now.'
  return new DormouseError('overloaded', message, { details: { reason: 'restores', retryAfterMs: 2_000 } })
}
