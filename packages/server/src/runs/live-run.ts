import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, hasErrorCode, type RunEvent } from '@dormouse/contracts'
import type { Guest, StartRun } from '@dormouse/engine'
import type { LiveSandbox } from '../lifecycle/live-sandbox.ts'
import type { Log } from '../lifecycle/parts.ts'
import type { RunJournal, RunRow } from './run-journal.ts'

export interface LiveRunParts {
  readonly journal: RunJournal
  readonly sandbox: LiveSandbox
  readonly row: RunRow
  /** What to start; without it the run is one that has been started before, by an earlier server or in a parent. */
  readonly request?: StartRun
  readonly now: () => number
  readonly log: Log
}

/** A run that waits behind others says nothing; what is wrong with a request is said sooner. */
const BEGUN_MS = 50
/** That a run has begun says little: it is written with what comes next, unless that takes longer than this. */
const START_ALONE_MS = 5
/** Readers who keep up take events from memory as long as there are no more of them than this. */
const RECENT_EVENTS = 64
const RECENT_BYTES = 256 * 1024
/** How often is tried to write what a full disk has refused. */
const TRY_AGAIN_MS = 1_000
/** Readers hear of a journal that cannot be written after this long: by then it is not a moment's trouble. */
const TROUBLE_TOLD_MS = 3_000

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
  #isLost = false
  #pending: RunEvent[] = []
  /** Under way while the journal cannot be written. */
  #trying: Promise<void> | undefined
  #trouble: DormouseError | undefined
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

  /** Why readers wait in vain for now. The run itself goes on. */
  get trouble(): DormouseError | undefined {
    return this.#trouble
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
      for await (const event of events) {
        this.#take(event)
        // What is not taken the agent keeps, as much as it can hold, and says what it had to leave out.
        if (this.#trying !== undefined) await this.#trying
      }
      if (!this.#hasEnded) this.#endLost('The sandbox no longer knows this run.')
    } catch (error) {
      if (this.#isReleased) return
      if (this.#lastSeq === -1) {
        await this.#persist(() => journal.forget(row.id))
        throw error
      }
      if (!this.#hasEnded) this.#endLost(reasonFor(error))
    }
    this.#flush()
    await this.#trying
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
    if (this.#pending.length === 0 || this.#isReleased || this.#trying !== undefined) return
    try {
      this.#writePending()
    } catch (error) {
      this.#trying = this.#persist(() => this.#writePending(), error).finally(() => {
        this.#trying = undefined
      })
    }
  }

  #writePending(): void {
    const { journal, now, row } = this.#parts
    const events = this.#pending
    const bytes = this.#isLost
      ? journal.endLost(row.id, events, now())
      : journal.append(row.id, events, now())
    this.#pending = []
    this.#remember(events, bytes)
    this.#tell()
  }

  /** Post: it is written, however often that had to be tried, or nobody wants it any more. `failure`: it has been tried once. */
  async #persist(write: () => void, failure?: unknown): Promise<void> {
    const { log, row } = this.#parts
    const fields = { sandboxId: row.sandboxId, runId: row.runId }
    let since = failure === undefined ? undefined : performance.now()
    if (failure !== undefined)
      log.error({ ...fields, err: failure }, 'the journal of a run cannot be written')
    while (!this.#isReleased) {
      try {
        if (since !== undefined) await sleep(TRY_AGAIN_MS, undefined, { ref: false })
        if (!this.#isReleased) write()
        if (since !== undefined) log.info(fields, 'the journal of a run can be written again')
        this.#trouble = undefined
        return
      } catch (error) {
        since ??= performance.now()
        if (performance.now() - since < TROUBLE_TOLD_MS) continue
        this.#trouble = unwritten(error)
        this.#tell()
      }
    }
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
    const { now, row } = this.#parts
    const seq = this.#lastSeq + 1
    const events: RunEvent[] = [
      { seq, type: 'error', name: 'RunLost', message, traceback: '' },
      { seq: seq + 1, type: 'exit', exitCode: -1, durationMs: Math.max(0, now() - row.startedAt) },
    ]
    this.#recent = undefined
    this.#pending.push(...events)
    this.#isLost = true
    this.#hasEnded = true
  }

  #tell(): void {
    for (const tell of this.#waiters.splice(0)) tell()
  }
}

function unwritten(cause: unknown): DormouseError {
  return new DormouseError('no_space', 'What the run says cannot be written down.', {
    hint: 'The run goes on. Free some disk space on the host, then read its events.',
    cause,
  })
}

function reasonFor(error: unknown): string {
  if (hasErrorCode(error, 'not_found') || hasErrorCode(error, 'cancelled'))
    return 'The sandbox went back to a state in which this run was not going on.'
  if (error instanceof DormouseError) return error.message
  return 'The run could not be followed any longer.'
}
