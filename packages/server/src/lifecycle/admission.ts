import { DormouseError } from '@dormouse/contracts'

export interface AdmissionLimits {
  /** Restores are bound by the CPU: more of them at once only make each slower. */
  readonly restoresAtOnce: number
  readonly queueLength: number
  readonly queueMs: number
  readonly minFreeMemoryBytes: number
  readonly minFreeDiskBytes: number
}

export interface HostRoom {
  freeMemoryBytes(): Promise<number>
  freeDiskBytes(): Promise<number>
}

interface Waiting {
  readonly owner: string
  readonly enter: () => void
}

/**
 * Who may start a burrow, and when. Owners take turns, so that one who wakes a hundred sandboxes does not keep the others waiting.
 * A refusal says when to come back and has changed nothing.
 */
export class Admission {
  readonly #limits: AdmissionLimits
  readonly #room: HostRoom
  readonly #queues = new Map<string, Waiting[]>()
  #waiting = 0
  #running = 0

  constructor(limits: AdmissionLimits, room: HostRoom) {
    this.#limits = limits
    this.#room = room
  }

  get load(): { running: number; waiting: number } {
    return { running: this.#running, waiting: this.#waiting }
  }

  /** New state needs room on the disk; waking what exists does not. */
  async requireDisk(): Promise<void> {
    const free = await this.#room.freeDiskBytes()
    if (free >= this.#limits.minFreeDiskBytes) return
    throw new DormouseError('no_space', 'The host is low on disk space.', {
      hint: 'Delete sandboxes or snapshots, or give the data directory more room.',
      details: { retryAfterMs: 60_000 },
    })
  }

  async requireMemory(): Promise<void> {
    const free = await this.#room.freeMemoryBytes()
    if (free >= this.#limits.minFreeMemoryBytes) return
    throw new DormouseError('overloaded', 'The host is low on memory.', {
      hint: 'Try again when other sandboxes have gone to sleep.',
      details: { retryAfterMs: 5_000 },
    })
  }

  async run<Value>(owner: string, start: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    await this.requireMemory()
    if (this.#running >= this.#limits.restoresAtOnce) await this.#wait(owner, signal)
    else this.#running += 1
    try {
      return await start()
    } finally {
      this.#running -= 1
      this.#next()
    }
  }

  #wait(owner: string, signal: AbortSignal | undefined): Promise<void> {
    if (this.#waiting >= this.#limits.queueLength)
      throw overloaded('Too many sandboxes are waiting to start.')
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        owner,
        enter: () => {
          settle()
          this.#running += 1
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
      signal?.addEventListener('abort', giveUp, { once: true })
      const queue = this.#queues.get(owner)
      if (queue === undefined) this.#queues.set(owner, [waiting])
      else queue.push(waiting)
      this.#waiting += 1
    })
  }

  #next(): void {
    const entry = this.#queues.entries().next()
    if (entry.done === true) return
    const [owner, queue] = entry.value
    const first = queue.shift()
    // To the end of the line of owners.
    this.#queues.delete(owner)
    if (queue.length > 0) this.#queues.set(owner, queue)
    if (first === undefined) return
    this.#waiting -= 1
    first.enter()
  }
}

function overloaded(message: string): DormouseError {
  return new DormouseError('overloaded', message, { details: { retryAfterMs: 2_000 } })
}
