import { setTimeout as sleep } from 'node:timers/promises'
import { settledWithin } from '@dormouse/async'
import { DormouseError, type ErrorCode, hasErrorCode, type RunEvent } from '@dormouse/contracts'
import type { StartRun } from '@dormouse/engine'
import { isSilent } from '@dormouse/guest'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { JournalSpace } from './journal-space.ts'
import { MAYBE_NOT_BEGUN, PROCESSES_ENDED } from './lost-events.ts'
import type { OutputThrottle } from './output-throttle.ts'
import type { RunJournal } from './run-journal.ts'
import { RunOutput } from './run-output.ts'
import type { RunRow } from './run-rows.ts'

export interface LiveRunParts {
  readonly journal: RunJournal
  readonly space: JournalSpace
  readonly throttle: OutputThrottle
  readonly sandbox: Pick<SandboxHandle, 'attachRun'>
  readonly row: RunRow
  /** What to start. Undefined: an earlier server or a parent sandbox may have started it. */
  readonly request?: StartRun
  /** An earlier server or a parent sandbox started it: no caller here waits to hear that it was refused. */
  readonly isResumed?: boolean
  readonly clock: Pick<ServerClock, 'wallMs'>
  readonly log: Log
}

/** A request that is refused is refused within this time. A run that waits behind others has no event yet. */
const BEGUN_MS = 50
/** Longest pause before a sandbox that does not answer, or cannot be woken now, is tried again. */
const PAUSE_MAX_MS = 10_000
/** How often a sandbox is woken for a queued run of an earlier server. */
const WAKE_ATTEMPTS = 10
/** After these errors the server does not know whether the agent has the run. */
const UNKNOWN_OUTCOME: ReadonlySet<string> = new Set<ErrorCode>([
  ...(['agent_unreachable', 'burrow_ended', 'cancelled', 'internal', 'protocol_mismatch'] as const),
])

/**
 * A run under way: takes its events from the sandbox, writes them into the journal, and notifies readers. It
 * continues whether or not someone reads.
 */
export class LiveRun {
  readonly row: RunRow
  /** Resolves when the run is over. Rejects when it was refused: nothing has run, and the journal has dropped it. */
  readonly over: Promise<void>
  readonly #parts: LiveRunParts
  readonly #stop = new AbortController()
  readonly #output: RunOutput
  /** Why the sandbox cannot be reached at the moment. */
  #sandboxTrouble: DormouseError | undefined
  #beginWaiters: (() => void)[] = []
  #readers: (() => void)[] = []
  #isOver = false
  #wasSent: boolean
  #lossReason: string | undefined
  #isReleased = false

  constructor(parts: LiveRunParts) {
    this.#parts = parts
    this.row = parts.row
    this.#wasSent = parts.request === undefined
    const { journal, space, throttle, row, clock, log } = parts
    this.#output = new RunOutput(
      {
        journal,
        space,
        throttle,
        row,
        now: () => clock.wallMs(),
        log,
        onChange: () => this.#notifyReaders(),
      },
      { isNew: parts.request !== undefined },
    )
    this.over = this.#run().finally(() => {
      this.#isOver = true
      this.#notifyReaders()
      this.#notifyBegun()
    })
    // There may be no caller that waits for it.
    this.over.catch(() => {})
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Why readers get nothing at the moment. The run itself continues. */
  get trouble(): DormouseError | undefined {
    return this.#sandboxTrouble ?? this.#output.trouble
  }

  /** Resolves when the run has begun, or probably waits behind others. Rejects when it was refused. */
  async begun(): Promise<void> {
    if (this.#output.lastSeq >= 0) return
    const begun = new Promise<void>((resolve) => this.#beginWaiters.push(resolve))
    const isKnown = await settledWithin(begun, BEGUN_MS)
    if (isKnown && this.#output.lastSeq < 0) await this.over
  }

  /** Events after `seq`, from memory. Undefined: read them in the journal. */
  recent(seq: number): RunEvent[] | undefined {
    return this.#output.recent(seq)
  }

  /** Resolves when there is more to read than now, or the run is over. */
  nextChange(): Promise<void> {
    if (this.#isOver) return Promise.resolve()
    return new Promise((resolve) => this.#readers.push(resolve))
  }

  /** Stops following. Writes nothing more into the journal. */
  release(): void {
    this.#isReleased = true
    this.#output.release()
    this.#stop.abort()
  }

  /** The request was handed to the sandbox: the run may have begun. */
  get isSent(): boolean {
    return this.#wasSent
  }

  /** The sandbox went back to an earlier state. A run that waits for a wake is not affected. */
  abandonIfSent(): void {
    if (this.#wasSent) this.#stop.abort()
  }

  /** The sandbox sleeps at its memory limit. Readers hear it; the run continues when the sandbox wakes. */
  isPaused(error: DormouseError): void {
    if (!this.#wasSent) return
    this.#sandboxTrouble = troubleOf(error, this.row)
    this.#notifyReaders()
  }

  /** The sandbox is awake again. */
  continues(): void {
    this.#sandboxTrouble = undefined
  }

  /** The processes of the sandbox ended. */
  loseIfSent(): void {
    this.#lossReason = PROCESSES_ENDED
    this.abandonIfSent()
  }

  async #run(): Promise<void> {
    const { row, journal, isResumed } = this.#parts
    try {
      await this.#follow()
      if (!this.#output.hasEnded) this.#output.endLost('The sandbox no longer knows this run.')
    } catch (error) {
      if (this.#isReleased) return
      if (this.#wasRefused(error)) {
        if (isResumed !== true) {
          await this.#output.persist(() => journal.forget(row.id))
          throw error
        }
        this.#lossReason = `The run was never started: ${messageOf(error)}`
      }
      if (!this.#output.hasEnded) this.#output.endLost(this.#lossReason ?? this.#reasonFor(error))
    }
    await this.#output.settled()
  }

  /** Takes events until they end, with as many attempts as it takes. */
  async #follow(): Promise<void> {
    for (let attempts = 0; ; attempts += 1) {
      try {
        for await (const event of this.#attach()) {
          if (event.type === 'sending') {
            this.#recordSent()
            continue
          }
          attempts = 0
          this.#sandboxTrouble = undefined
          const room = this.#output.take(event)
          this.#notifyBegun()
          if (room !== undefined) await room
        }
        return
      } catch (error) {
        if (!this.#isWorthWaiting(error, attempts)) throw error
        this.#sandboxTrouble = troubleOf(error, this.row)
        this.#notifyReaders()
        const pauseMs = Math.min(PAUSE_MAX_MS, 500 * 2 ** attempts)
        // Rejects when this run is stopped.
        await sleep(pauseMs, undefined, { ref: false, signal: this.#stop.signal }).catch(() => {})
      }
    }
  }

  #attach(): ReturnType<SandboxHandle['attachRun']> {
    const { sandbox, row, request } = this.#parts
    const { signal } = this.#stop
    return sandbox.attachRun({ runId: row.runId, request, after: this.#output.lastSeq, signal })
  }

  /**
   * Called before the request is sent. A server that finds the run later asks the sandbox for it and never starts it
   * again.
   */
  #recordSent(): void {
    const { row, journal } = this.#parts
    if (row.isUnsent && !this.#wasSent) journal.dropRequest(row.id)
    this.#wasSent = true
    this.#notifyReaders()
  }

  /** A silent agent may answer later, and the run continues then. */
  #isWorthWaiting(error: unknown, attempts: number): boolean {
    if (this.#stop.signal.aborted) return false
    if (this.#wasSent) return isSilent(error)
    const isLeft = this.#parts.isResumed === true && attempts + 1 < WAKE_ATTEMPTS
    return isLeft && error instanceof DormouseError && error.retry
  }

  /** The run has not begun and never will. */
  #wasRefused(error: unknown): boolean {
    if (this.#parts.request === undefined || this.#output.lastSeq >= 0) return false
    return !this.#wasSent || (error instanceof DormouseError && !UNKNOWN_OUTCOME.has(error.code))
  }

  #notifyBegun(): void {
    for (const notify of this.#beginWaiters.splice(0)) notify()
  }

  #reasonFor(error: unknown): string {
    const isUnknown = hasErrorCode(error, 'not_found') && this.#output.lastSeq === -1
    if (isUnknown && this.#parts.request === undefined) return MAYBE_NOT_BEGUN
    if (hasErrorCode(error, 'not_found') || hasErrorCode(error, 'cancelled'))
      return 'The sandbox went back to a state in which this run was not going on.'
    return messageOf(error)
  }

  #notifyReaders(): void {
    for (const notify of this.#readers.splice(0)) notify()
  }
}

/** The error that readers get while a run waits for its sandbox. */
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
  return error instanceof DormouseError ? error.message : 'The server could not follow the run any longer.'
}
