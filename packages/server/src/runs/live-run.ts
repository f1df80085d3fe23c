import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, type ErrorCode, hasErrorCode, type RunEvent } from '@dormouse/contracts'
import type { Guest, StartRun } from '@dormouse/engine'
import { isSilent } from '@dormouse/guest'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { LiveSandbox } from '../sandbox/live-sandbox.ts'
import type { JournalSpace } from './journal-space.ts'
import { MAYBE_NOT_BEGUN, PROCESSES_ENDED } from './lost-run.ts'
import type { OutputPacer } from './output-pacer.ts'
import type { RunJournal, RunRow } from './run-journal.ts'
import { RunOutput } from './run-output.ts'

export interface LiveRunParts {
  readonly journal: RunJournal
  readonly space: JournalSpace
  readonly pacer: OutputPacer
  readonly sandbox: LiveSandbox
  readonly row: RunRow
  /** What to start; without it the run may have been started before, by an earlier server or in a parent. */
  readonly request?: StartRun
  /** An earlier server, or a parent, had it: nobody here waits to hear that it was refused. */
  readonly isTakenUp?: boolean
  readonly clock: Pick<ServerClock, 'wallMs'>
  readonly log: Log
}

/** A run that waits behind others says nothing; what is wrong with a request is said sooner. */
const BEGUN_MS = 50
/** How long is waited before a sandbox that does not answer, or cannot be woken now, is asked again. */
const PAUSE_MAX_MS = 10_000
/** How often a sandbox is woken for a run that an earlier server has left behind. */
const WAKE_ATTEMPTS = 10
/** After these it is not known whether the agent has taken the run. */
const UNKNOWN_OUTCOME: ReadonlySet<string> = new Set<ErrorCode>([
  ...(['agent_unreachable', 'burrow_ended', 'cancelled', 'internal', 'protocol_mismatch'] as const),
])

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
  readonly #output: RunOutput
  /** Why the sandbox cannot be followed at the moment. */
  #waiting: DormouseError | undefined
  #onBegun: (() => void)[] = []
  #waiters: (() => void)[] = []
  #isOver = false
  #wasSent: boolean
  #lossReason: string | undefined
  #isReleased = false

  constructor(parts: LiveRunParts) {
    this.#parts = parts
    this.row = parts.row
    this.#wasSent = parts.request === undefined
    const { journal, space, pacer, row, clock, log } = parts
    this.#output = new RunOutput(
      { journal, space, pacer, row, now: () => clock.wallMs(), log, onNews: () => this.#tell() },
      { isNew: parts.request !== undefined },
    )
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
    return this.#waiting ?? this.#output.trouble
  }

  /** Settles when it has begun, or is likely to wait behind others. Rejects when it was refused. */
  async begun(): Promise<void> {
    if (this.#output.lastSeq >= 0) return
    let timer: NodeJS.Timeout | undefined
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, BEGUN_MS)
    })
    const begun = new Promise<void>((resolve) => this.#onBegun.push(resolve))
    await Promise.race([begun.then(() => (this.#output.lastSeq < 0 ? this.over : undefined)), patience])
    clearTimeout(timer)
  }

  /** What comes after `seq`; undefined: read it in the journal. */
  recent(seq: number): RunEvent[] | undefined {
    return this.#output.recent(seq)
  }

  /** Settles when there is more in the journal than before, or it is over. */
  news(): Promise<void> {
    if (this.#isOver) return Promise.resolve()
    return new Promise((resolve) => this.#waiters.push(resolve))
  }

  /** Stops following without a word in the journal. */
  release(): void {
    this.#isReleased = true
    this.#output.release()
    this.#stop.abort()
  }

  /** Whether it may have begun. */
  get isSent(): boolean {
    return this.#wasSent
  }

  /** The sandbox went back to an earlier state. One that waits for its wake has nothing to lose. */
  abandonIfSent(): void {
    if (this.#wasSent) this.#stop.abort()
  }

  /** The processes of the sandbox are gone. */
  loseIfSent(): void {
    this.#lossReason = PROCESSES_ENDED
    this.abandonIfSent()
  }

  async #pump(): Promise<void> {
    const { row, journal, isTakenUp } = this.#parts
    try {
      await this.#follow()
      if (!this.#output.hasEnded) this.#output.endLost('The sandbox no longer knows this run.')
    } catch (error) {
      if (this.#isReleased) return
      if (this.#wasRefused(error)) {
        if (isTakenUp !== true) {
          await this.#output.persist(() => journal.forget(row.id))
          throw error
        }
        this.#lossReason = `The run was never started: ${messageOf(error)}`
      }
      if (!this.#output.hasEnded) this.#output.endLost(this.#lossReason ?? this.#reasonFor(error))
    }
    await this.#output.settled()
  }

  /** Takes its events until they end, over as many attempts as it takes. */
  async #follow(): Promise<void> {
    for (let attempts = 0; ; attempts += 1) {
      try {
        for await (const event of this.#events()) {
          attempts = 0
          this.#waiting = undefined
          const room = this.#output.take(event)
          this.#tellBegun()
          if (room !== undefined) await room
        }
        return
      } catch (error) {
        if (!this.#isWorthWaiting(error, attempts)) throw error
        this.#waiting = troubleOf(error, this.row)
        this.#tell()
        const pauseMs = Math.min(PAUSE_MAX_MS, 500 * 2 ** attempts)
        await sleep(pauseMs, undefined, { ref: false, signal: this.#stop.signal }).catch(() => {})
      }
    }
  }

  #events(): AsyncIterable<RunEvent> {
    const { sandbox, row } = this.#parts
    // Whoever asks for a run wants it to begin; one that has begun waits with its sandbox.
    const isQueued = this.#output.lastSeq === -1
    return sandbox.attach(
      {
        cause: 'run',
        what: `run ${row.runId}`,
        kind: 'run',
        wakes: isQueued,
        wakesUntilBegun: isQueued,
        signal: this.#stop.signal,
      },
      (guest) => this.#open(guest),
    )
  }

  /** An agent that says nothing may do so later, and then goes on with the run. */
  #isWorthWaiting(error: unknown, attempts: number): boolean {
    if (this.#stop.signal.aborted) return false
    if (this.#wasSent) return isSilent(error)
    const isLeft = this.#parts.isTakenUp === true && attempts + 1 < WAKE_ATTEMPTS
    return isLeft && error instanceof DormouseError && error.retry
  }

  /** It has not begun and never will. */
  #wasRefused(error: unknown): boolean {
    if (this.#parts.request === undefined || this.#output.lastSeq >= 0) return false
    return !this.#wasSent || (error instanceof DormouseError && !UNKNOWN_OUTCOME.has(error.code))
  }

  async *#open(guest: Guest): AsyncGenerator<RunEvent> {
    const { row, request, journal } = this.#parts
    const { signal } = this.#stop
    if (this.#output.lastSeq === -1 && request !== undefined) {
      if (row.isUnsent && !this.#wasSent) journal.dropRequest(row.id)
      this.#wasSent = true
      this.#tell()
      try {
        yield* guest.runs.stream({ ...request, runId: row.runId }, { signal })
        return
      } catch (error) {
        // The connection broke after it had been sent: it is there, and must not run twice.
        if (!hasErrorCode(error, 'already_exists')) throw error
      }
    }
    yield* guest.runs.events(row.runId, { after: this.#output.lastSeq, follow: true, signal })
  }

  #tellBegun(): void {
    for (const tell of this.#onBegun.splice(0)) tell()
  }

  #reasonFor(error: unknown): string {
    const isUnknown = hasErrorCode(error, 'not_found') && this.#output.lastSeq === -1
    if (isUnknown && this.#parts.request === undefined) return MAYBE_NOT_BEGUN
    if (hasErrorCode(error, 'not_found') || hasErrorCode(error, 'cancelled'))
      return 'The sandbox went back to a state in which this run was not going on.'
    return messageOf(error)
  }

  #tell(): void {
    for (const tell of this.#waiters.splice(0)) tell()
  }
}

/** What readers are told while a run waits for its sandbox. */
function troubleOf(error: unknown, { runId }: RunRow): DormouseError {
  const { code, details, hint } =
    error instanceof DormouseError ? error : new DormouseError('agent_unreachable', '')
  return new DormouseError(code, `${messageOf(error)} The run is not over.`, {
    hint,
    details: { ...details, runId },
    cause: error,
  })
}

function messageOf(error: unknown): string {
  return error instanceof DormouseError ? error.message : 'The run could not be followed any longer.'
}
