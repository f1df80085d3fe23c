import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasErrorCode } from '@dormouse/contracts'
import type { ArrivingFile } from './arriving-file.ts'

/** Chunks on their way at once that no process waits for. */
const AHEAD_AT_ONCE = 16
/** Processes wait for these: they do not wait for the ones above too. */
const WANTED_AT_ONCE = 6
/** The rest begins when no process has asked for so long: the wake comes first. */
const QUIET_MS = 500
const RETRY_MS = 500
const RETRY_MAX_MS = 10_000
/** A chunk may be damaged on the way, and a server of the store that lags behind may lack it for a moment. */
const LOST_AFTER_TRIES = 5

interface Wanted {
  readonly file: ArrivingFile
  readonly chunk: number
}

export interface ArrivalOptions {
  readonly files: readonly ArrivingFile[]
  /** What the last wake touched. */
  readonly workingSet: readonly Wanted[]
  /** Called after every chunk. */
  readonly onChunk: (bytes: number) => void
  readonly onFailure: (error: unknown) => void
  /** Verifies and syncs the files. The arrival is over when it resolves. */
  readonly finish: () => Promise<void>
}

/**
 * Fetches the memory of one snapshot: first what processes wait for, then what the last wake touched, then the rest.
 * A chunk that cannot be fetched is tried again, unless the depot has lost it.
 */
export class Arrival {
  /** Rejects when a part is lost, or when it was stopped. */
  readonly done: Promise<void>
  readonly #options: ArrivalOptions
  readonly #ending = new AbortController()
  readonly #wanted: Wanted[] = []
  readonly #early: Wanted[]
  readonly #rest: Wanted[] = []
  readonly #missing = new Map<ArrivingFile, Set<number>>()
  #settle: { resolve: () => void; reject: (error: unknown) => void } = { resolve: () => {}, reject: () => {} }
  #timer: NodeJS.Timeout | undefined
  #quietSince = performance.now()
  #aheadInFlight = 0
  #wantedInFlight = 0
  #isHurried = false
  #isFinishing = false
  #lost: unknown

  private constructor(options: ArrivalOptions) {
    this.#options = options
    this.#early = [...options.workingSet].reverse()
    // All of them wait for the next try when the depot does not answer.
    setMaxListeners(AHEAD_AT_ONCE + WANTED_AT_ONCE, this.#ending.signal)
    this.done = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // Also when no caller waits for it.
    this.done.catch(() => {})
  }

  /** Why some of it will never be here, if that is so. */
  get loss(): unknown {
    return this.#lost
  }

  static start(options: ArrivalOptions): Arrival {
    const arrival = new Arrival(options)
    for (const file of options.files) {
      arrival.#missing.set(file, new Set(file.missing))
      for (const chunk of [...file.missing].reverse()) arrival.#rest.push({ file, chunk })
    }
    arrival.#timer = setInterval(() => arrival.#pump(), QUIET_MS / 5)
    arrival.#timer.unref()
    arrival.#pump()
    return arrival
  }

  /** A process waits for these bytes. */
  want(name: string, range: { offset: number; lengthBytes: number }): void {
    const file = this.#options.files.find((one) => one.name === name)
    if (file === undefined) return
    this.#quietSince = performance.now()
    for (const chunk of file.chunksAt(range.offset, range.lengthBytes)) this.#wanted.push({ file, chunk })
    this.#pump()
  }

  /** A caller waits for all of it. */
  hurry(): void {
    this.#isHurried = true
    this.#pump()
  }

  async stop(): Promise<void> {
    this.#ending.abort()
    clearInterval(this.#timer)
    if (!this.#isFinishing && this.#aheadInFlight + this.#wantedInFlight === 0) this.#end()
    await this.done.catch(() => {})
  }

  #pump(): void {
    if (this.#ending.signal.aborted) return
    while (this.#wantedInFlight < WANTED_AT_ONCE) {
      const next = this.#next(this.#wanted, 'shift')
      if (next === undefined) break
      this.#wantedInFlight += 1
      void this.#fetch(next).finally(() => this.#afterFetch(() => (this.#wantedInFlight -= 1)))
    }
    while (this.#aheadInFlight < AHEAD_AT_ONCE) {
      const next =
        this.#next(this.#early, 'pop') ?? (this.#mayFetchRest ? this.#next(this.#rest, 'pop') : undefined)
      if (next === undefined) break
      this.#aheadInFlight += 1
      void this.#fetch(next).finally(() => this.#afterFetch(() => (this.#aheadInFlight -= 1)))
    }
    const isComplete = [...this.#missing.values()].every((chunks) => chunks.size === 0)
    if (isComplete && this.#aheadInFlight + this.#wantedInFlight === 0) void this.#finish()
  }

  get #mayFetchRest(): boolean {
    return this.#isHurried || performance.now() - this.#quietSince > QUIET_MS
  }

  /** The next one that is still missing. It is not missing any more for others: it is on its way. */
  #next(queue: Wanted[], from: 'shift' | 'pop'): Wanted | undefined {
    while (queue.length > 0) {
      const next = from === 'shift' ? queue.shift() : queue.pop()
      if (next !== undefined && this.#missing.get(next.file)?.delete(next.chunk)) return next
    }
    return undefined
  }

  #afterFetch(count: () => void): void {
    count()
    if (this.#ending.signal.aborted && this.#aheadInFlight + this.#wantedInFlight === 0) this.#end()
    else this.#pump()
  }

  async #fetch({ file, chunk }: Wanted): Promise<void> {
    const { onChunk, onFailure } = this.#options
    const { signal } = this.#ending
    let unusable = 0
    for (let pauseMs = RETRY_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, RETRY_MAX_MS)) {
      try {
        const data = await file.memory.load(chunk)
        await file.write(chunk, data)
        onChunk(data.length)
        return
      } catch (error) {
        onFailure(error)
        if (hasErrorCode(error, 'snapshot_unusable')) unusable += 1
        if (unusable >= LOST_AFTER_TRIES) {
          this.#lost = error
          await file.lose(chunk).catch(onFailure)
          onChunk(0)
          return
        }
      }
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    }
    this.#missing.get(file)?.add(chunk)
  }

  async #finish(): Promise<void> {
    this.#isFinishing = true
    clearInterval(this.#timer)
    this.#ending.abort()
    try {
      if (this.#lost === undefined) await this.#options.finish()
    } catch (error) {
      this.#lost = error
    }
    this.#end()
  }

  #end(): void {
    if (this.#lost !== undefined) this.#settle.reject(this.#lost)
    else if ([...this.#missing.values()].some((chunks) => chunks.size > 0))
      this.#settle.reject(new Error('the arrival was stopped'))
    else this.#settle.resolve()
  }
}
