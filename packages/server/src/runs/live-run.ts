import { DormouseError, hasErrorCode, type RunEvent } from '@dormouse/contracts'
import type { Guest, StartRun } from '@dormouse/engine'
import type { LiveSandbox } from '../lifecycle/live-sandbox.ts'
import type { RunJournal, RunRow } from './run-journal.ts'

export interface LiveRunParts {
  readonly journal: RunJournal
  readonly sandbox: LiveSandbox
  readonly row: RunRow
  /** What to start; without it the run is one that has been started before, by an earlier server or in a parent. */
  readonly request?: StartRun
  readonly now: () => number
}

/** A run that waits behind others says nothing; what is wrong with a request is said sooner. */
const BEGUN_MS = 50
/** That a run has begun says little: it is written with what comes next, unless that takes longer than this. */
const START_ALONE_MS = 5
/** Readers who keep up take events from memory as long as there are no more of them than this. */
const RECENT_EVENTS = 64
const RECENT_BYTES = 256 * 1024

/**
 * A run under way: takes its events from the agent into the journal, from burrow to burrow, and tells those who follow. It does not
 * depend on anybody who reads.
 */
export class LiveRun {
  readonly row: RunRow
  /** Settles when it is over, in whatever way. Rejects when it was refused: then nothing has run, and the journal does not know it. */
  readonly over: Promise<void>
  readonly #parts: LiveRunParts
  readonly #stop = new AbortController()
  #lastSeq: number
  #hasEnded = false
  #pending: RunEvent[] = []
  #flushing: NodeJS.Immediate | undefined
  #startTimer: NodeJS.Timeout | undefined
  /** All that is in the journal of this run, while it is little. */
  #recent: RunEvent[] | undefined = []
  #recentBytes = 0
  #onBegun: (() => void)[] = []
  #waiters: (() => void)[] = []
  #isOver = false
  #wasSent = false
  #isReleased = false

  constructor(parts: LiveRunParts) {
    this.#parts = parts
    this.row = parts.row
    this.#lastSeq = parts.request === undefined ? parts.journal.lastSeq(parts.row.id) : -1
    if (parts.request === undefined) this.#recent = undefined
    this.over = this.#pump().finally(() => {
      this.#isOver = true
      this.#tell()
      this.#tellBegun()
    })
    // Nobody may be waiting for it.
    this.over.catch(() => {})
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Settles when it has begun, or is likely to wait behind others. Rejects when it was refused. */
  async begun(): Promise<void> {
    if (this.#lastSeq >= 0) return
    let timer: NodeJS.Timeout | undefined
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, BEGUN_MS)
    })
    const begun = new Promise<void>((resolve) => this.#onBegun.push(resolve))
    await Promise.race([begun.then(() => (this.#lastSeq < 0 ? this.over : undefined)), patience])
    clearTimeout(timer)
  }

  /** What the journal has after `seq`; undefined: read it there. */
  recent(seq: number): RunEvent[] | undefined {
    return this.#recent?.slice(seq + 1)
  }

  /** Settles when there is more in the journal than before, or it is over. */
  news(): Promise<void> {
    if (this.#isOver) return Promise.resolve()
    return new Promise((resolve) => this.#waiters.push(resolve))
  }

  /** Stops following without a word in the journal. */
  release(): void {
    this.#isReleased = true
    this.#stop.abort()
  }

  /** The sandbox went back to an earlier state. One that waits for its wake has nothing to lose. */
  abandonIfSent(): void {
    if (this.#wasSent) this.#stop.abort()
  }

  async #pump(): Promise<void> {
    const { sandbox, row, journal } = this.#parts
    try {
      const events = sandbox.attach(
        {
          cause: 'run',
          what: `run ${row.runId}`,
          kind: 'run',
          // Whoever asks for a run wants it to begin; one that has begun waits with its sandbox.
          wakesUntilBegun: this.#parts.request !== undefined,
          signal: this.#stop.signal,
        },
        (guest) => this.#open(guest),
      )
      for await (const event of events) this.#take(event)
      this.#flush()
      if (!this.#hasEnded) this.#endLost('The sandbox no longer knows this run.')
    } catch (error) {
      if (this.#isReleased) return
      this.#flush()
      if (this.#hasEnded) return
      if (this.#lastSeq === -1) {
        journal.forget(row.id)
        throw error
      }
      this.#endLost(reasonFor(error))
    }
  }

  async *#open(guest: Guest): AsyncGenerator<RunEvent> {
    const { row, request } = this.#parts
    this.#wasSent = true
    if (this.#lastSeq === -1 && request !== undefined) {
      try {
        yield* guest.runs.stream({ ...request, runId: row.runId })
        return
      } catch (error) {
        // The connection broke after it had been sent: it is there, and must not run twice.
        if (!hasErrorCode(error, 'already_exists')) throw error
      }
    }
    yield* guest.runs.events(row.runId, { after: this.#lastSeq, follow: true })
  }

  #take(event: RunEvent): void {
    if (event.seq <= this.#lastSeq) return
    this.#lastSeq = event.seq
    this.#pending.push(event)
    this.#tellBegun()
    // What arrives together is written together; the end is not waited for.
    if (event.type === 'exit') {
      this.#hasEnded = true
      this.#flush()
    } else if (event.type === 'start') this.#startTimer = setTimeout(() => this.#flush(), START_ALONE_MS)
    else this.#flushing ??= setImmediate(() => this.#flush())
  }

  #flush(): void {
    clearImmediate(this.#flushing)
    clearTimeout(this.#startTimer)
    this.#flushing = undefined
    if (this.#pending.length === 0 || this.#isReleased) return
    const { journal, now, row } = this.#parts
    const events = this.#pending.splice(0)
    const bytes = journal.append(row.id, events, now())
    this.#remember(events, bytes)
    this.#tell()
  }

  #remember(events: readonly RunEvent[], bytes: number): void {
    this.#recentBytes += bytes
    if (this.#recent === undefined) return
    this.#recent.push(...events)
    // The agent leaves out what it could not keep, and then the place of an event is no longer its number.
    const isWhole = this.#recent.length === this.#lastSeq + 1
    const isLittle = this.#recent.length <= RECENT_EVENTS && this.#recentBytes <= RECENT_BYTES
    if (!isWhole || !isLittle) this.#recent = undefined
  }

  #tellBegun(): void {
    for (const tell of this.#onBegun.splice(0)) tell()
  }

  #endLost(message: string): void {
    const { journal, now, row } = this.#parts
    const seq = this.#lastSeq + 1
    const events: RunEvent[] = [
      { seq, type: 'error', name: 'RunLost', message, traceback: '' },
      { seq: seq + 1, type: 'exit', exitCode: -1, durationMs: Math.max(0, now() - row.startedAt) },
    ]
    this.#recent = undefined
    journal.endLost(row.id, events, now())
    this.#hasEnded = true
  }

  #tell(): void {
    for (const tell of this.#waiters.splice(0)) tell()
  }
}

function reasonFor(error: unknown): string {
  if (hasErrorCode(error, 'not_found') || hasErrorCode(error, 'cancelled'))
    return 'The sandbox went back to a state in which this run was not going on.'
  if (error instanceof DormouseError) return error.message
  return 'The run could not be followed any longer.'
}
