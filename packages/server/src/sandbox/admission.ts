import { DormouseError } from '@dormouse/contracts'
import type { HostRoom } from '../host/host-room.ts'

export interface AdmissionLimits {
  /** Restores are bound by the CPU: more of them at once only make each slower. */
  readonly restoresAtOnce: number
  readonly queueLength: number
  readonly queueMs: number
  readonly minFreeMemoryBytes: number
  readonly minFreeDiskBytes: number
}

interface Waiting {
  readonly enter: () => void
}

/**
 * Who may start a burrow, and when: every restore of the server comes here. Owners take turns, so that one who wakes a hundred sandboxes
 * does not keep the others waiting. A refusal says when to come back and has changed nothing. Nobody may wait here while holding a place.
 */
export class Admission {
  readonly #limits: AdmissionLimits
  readonly #room: HostRoom
  readonly #queues = new Map<string, Waiting[]>()
  readonly #goingOn: Waiting[] = []
  #waiting = 0
  #running = 0

  constructor(limits: AdmissionLimits, room: HostRoom) {
    this.#limits = limits
    this.#room = room
  }

  get load(): { running: number; waiting: number } {
    return { running: this.#running, waiting: this.#waiting + this.#goingOn.length }
  }

  /** New state needs room on the disk; waking what exists does not. */
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

  async run<Value>(owner: string, start: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    await this.requireMemory()
    if (this.#isFull) await this.#wait(owner, signal)
    else this.#running += 1
    return this.#inPlace(start)
  }

  /**
   * For what was awake a moment ago and is on disk only because it is being saved or forked: it comes before all who wait, and is never
   * refused. There are never more of these than sandboxes that ran.
   */
  async goOn<Value>(start: () => Promise<Value>): Promise<Value> {
    if (this.#isFull) await new Promise<void>((resolve) => this.#goingOn.push({ enter: resolve }))
    else this.#running += 1
    return this.#inPlace(start)
  }

  get #isFull(): boolean {
    return this.#running >= this.#limits.restoresAtOnce
  }

  /** Whoever leaves a place gives it to the next: the number of those inside does not change then. */
  async #inPlace<Value>(start: () => Promise<Value>): Promise<Value> {
    try {
      return await start()
    } finally {
      const next = this.#goingOn.shift() ?? this.#takeNext()
      if (next === undefined) this.#running -= 1
      else next.enter()
    }
  }

  #wait(owner: string, signal: AbortSignal | undefined): Promise<void> {
    if (this.#waiting >= this.#limits.queueLength)
      throw overloaded('Too many sandboxes are waiting to start.')
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        enter: () => {
          settle()
          resolve()
        },
      }
      const leave = (error: DormouseError) => {
        settle()
        const queue = this.#queues.get(owner) ?? []
        queue.splice(queue.indexOf(waiting), 1)
        if (queue.length === 0) this.#queues.delete(owner)
        this.#waiting -= 1
        reject(error)
      }
      const timer = setTimeout(
        () => leave(overloaded('The host is too busy to start this sandbox now.')),
        this.#limits.queueMs,
      )
      const giveUp = () => leave(new DormouseError('cancelled', 'The caller gave up waiting.'))
      const settle = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', giveUp)
      }
      const queue = this.#queues.get(owner)
      if (queue === undefined) this.#queues.set(owner, [waiting])
      else queue.push(waiting)
      this.#waiting += 1
      if (signal?.aborted) giveUp()
      else signal?.addEventListener('abort', giveUp, { once: true })
    })
  }

  #takeNext(): Waiting | undefined {
    const entry = this.#queues.entries().next()
    if (entry.done === true) return undefined
    const [owner, queue] = entry.value
    const first = queue.shift()
    // To the end of the line of owners.
    this.#queues.delete(owner)
    if (queue.length > 0) this.#queues.set(owner, queue)
    this.#waiting -= 1
    return first
  }
}

function overloaded(message: string): DormouseError {
  return new DormouseError('overloaded', message, { details: { reason: 'restores', retryAfterMs: 2_000 } })
}
