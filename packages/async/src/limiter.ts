import { onAbort } from './on-abort.ts'

/** Why a limiter does not start some work: its queue is full, it waited too long, or its signal aborted. */
export type Refusal = 'queue_full' | 'timeout' | 'aborted'

export interface LimiterOptions {
  readonly concurrency: number
  /** How many may wait; the rest is refused at once. Unbounded by default. */
  readonly maxQueued?: number | undefined
  /** How long one may wait. For ever by default. */
  readonly maxWaitMs?: number | undefined
  /** The error that a refused caller gets. */
  readonly refuse?: ((refusal: Refusal, signal: AbortSignal | undefined) => Error) | undefined
}

export interface RunOptions {
  /** Keys take turns, so that one key with many entries does not delay the others. */
  readonly key?: string | undefined
  /** Goes ahead of every key, and is never refused. */
  readonly isUrgent?: boolean | undefined
  readonly signal?: AbortSignal | undefined
}

/** Runs at most `concurrency` pieces of work at once. The others wait: first come, first served within a key. */
export class Limiter {
  readonly #options: LimiterOptions
  /** The first key in the map is the next to be served; a key that was served goes to the end. */
  readonly #queues = new Map<string, (() => void)[]>()
  readonly #urgent: (() => void)[] = []
  #queued = 0
  #running = 0

  constructor(options: LimiterOptions) {
    this.#options = options
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#queued + this.#urgent.length
  }

  async run<Value>(work: () => Promise<Value> | Value, options: RunOptions = {}): Promise<Value> {
    if (options.isUrgent !== true && options.signal?.aborted) throw this.#refusal('aborted', options.signal)
    if (this.#running < this.#options.concurrency) this.#running += 1
    else if (options.isUrgent === true) await new Promise<void>((start) => this.#urgent.push(start))
    else await this.#wait(options)
    try {
      return await work()
    } finally {
      // A place that is handed on stays counted in #running.
      const next = this.#urgent.shift() ?? this.#takeNext()
      if (next === undefined) this.#running -= 1
      else next()
    }
  }

  #wait({ key = '', signal }: RunOptions): Promise<void> {
    const { maxQueued = Number.POSITIVE_INFINITY, maxWaitMs } = this.#options
    if (this.#queued >= maxQueued) throw this.#refusal('queue_full', signal)
    return new Promise((resolve, reject) => {
      const start = () => {
        stopWaiting()
        resolve()
      }
      const refuse = (refusal: Refusal) => {
        stopWaiting()
        this.#remove(key, start)
        reject(this.#refusal(refusal, signal))
      }
      const timer = maxWaitMs === undefined ? undefined : setTimeout(() => refuse('timeout'), maxWaitMs)
      const listener = onAbort(signal, () => refuse('aborted'))
      const stopWaiting = () => {
        clearTimeout(timer)
        listener[Symbol.dispose]()
      }
      const queue = this.#queues.get(key)
      if (queue === undefined) this.#queues.set(key, [start])
      else queue.push(start)
      this.#queued += 1
    })
  }

  #remove(key: string, start: () => void): void {
    const queue = this.#queues.get(key) ?? []
    const index = queue.indexOf(start)
    if (index === -1) return
    queue.splice(index, 1)
    if (queue.length === 0) this.#queues.delete(key)
    this.#queued -= 1
  }

  #takeNext(): (() => void) | undefined {
    const entry = this.#queues.entries().next()
    if (entry.done === true) return undefined
    const [key, queue] = entry.value
    const start = queue.shift()
    this.#queues.delete(key)
    if (queue.length > 0) this.#queues.set(key, queue)
    this.#queued -= 1
    return start
  }

  #refusal(refusal: Refusal, signal: AbortSignal | undefined): Error {
    return this.#options.refuse?.(refusal, signal) ?? new Error(`The work was not started: ${refusal}.`)
  }
}
