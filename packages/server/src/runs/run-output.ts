import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, type RunEvent } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import { boundEvent, type Entry, entryOf } from './bound-event.ts'
import type { JournalSpace } from './journal-space.ts'
import { OUTPUT_FREE_BYTES, PENDING_MAX_BYTES, RECENT_MAX_BYTES, WRITTEN_HERE_BYTES } from './limits.ts'
import { lostEvents } from './lost-run.ts'
import type { OutputPacer } from './output-pacer.ts'
import type { RunJournal, RunRow } from './run-journal.ts'
import { RunTail } from './run-tail.ts'

export interface RunOutputParts {
  readonly journal: RunJournal
  readonly space: JournalSpace
  readonly pacer: OutputPacer
  readonly row: RunRow
  readonly now: () => number
  readonly log: Log
  /** There is more for readers than before, or `trouble` has changed. */
  readonly onNews: () => void
}

/** That a run has begun says little: it is written with what comes next, unless that takes longer than this. */
const START_ALONE_MS = 5
/** How often is tried to write what a full disk has refused. */
const TRY_AGAIN_MS = 1_000
/** Readers hear of a journal that cannot be written after this long: by then it is not a moment's trouble. */
const TROUBLE_TOLD_MS = 3_000

/**
 * What one run says, on its way into the journal: its beginning as it comes, up to the bound of the run, and at its end the last of
 * what came behind that, with one `truncated` for what is missing in between. Readers find everything in the journal, but for what
 * comes behind the bound: that is here, for those who keep up.
 */
export class RunOutput {
  readonly #parts: RunOutputParts
  #lastSeq: number
  /** The last one that is in the journal, or on the way there. */
  #keptSeq: number
  #pending: Entry[] = []
  #pendingBytes = 0
  /** In the journal, or on the way there. */
  #keptBytes: number
  #takenBytes = 0
  /**
   * The end of what the run said beyond its bound. The agent has it too, so a server that dies loses nothing of it. Readers who keep up
   * see everything.
   */
  #tail: RunTail | undefined
  /** Under way while something is being written, or cannot be. */
  #writing: Promise<void> | undefined
  #trouble: DormouseError | undefined
  #flushing: NodeJS.Immediate | undefined
  #startTimer: NodeJS.Timeout | undefined
  /** The last that the journal has: readers who keep up need not read it there. */
  readonly #recent: RunTail
  #hasEnded = false
  #isLost = false
  #isReleased = false

  constructor(parts: RunOutputParts, { isNew }: { isNew: boolean }) {
    this.#parts = parts
    this.#lastSeq = isNew ? -1 : parts.journal.lastSeq(parts.row.id)
    this.#keptSeq = this.#lastSeq
    this.#recent = new RunTail(this.#lastSeq, RECENT_MAX_BYTES)
    this.#keptBytes = parts.row.bytes
  }

  get lastSeq(): number {
    return this.#lastSeq
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Why readers get nothing at the moment. The run itself continues. */
  get trouble(): DormouseError | undefined {
    return this.#trouble
  }

  /** What comes behind `seq`; undefined: read it in the journal. */
  recent(seq: number): RunEvent[] | undefined {
    if (this.#tail !== undefined && seq >= this.#tail.startSeq) return this.#tail.after(seq)
    return seq >= this.#recent.droppedSeq ? this.#recent.after(seq) : undefined
  }

  /** Settles when more may be taken; undefined: now. What is not taken the agent keeps, and says what it had to leave out. */
  take(event: RunEvent): Promise<void> | undefined {
    if (event.seq <= this.#lastSeq) return undefined
    this.#lastSeq = event.seq
    const entry = entryOf(boundEvent(event))
    this.#add(entry)
    // What arrives together is written together; the end is not waited for.
    if (event.type === 'exit') this.flush()
    else if (event.type === 'start') this.#startTimer = setTimeout(() => this.flush(), START_ALONE_MS)
    else if (this.#pendingBytes > PENDING_MAX_BYTES) this.flush()
    else this.#flushing ??= setImmediate(() => this.flush())
    return this.#room(entry.bytes)
  }

  /** Its processes are gone: says so, and puts an end to it. */
  endLost(message: string): void {
    const { now, row } = this.#parts
    this.#isLost = true
    for (const event of lostEvents(this.#lastSeq, message, now() - row.startedAt)) this.#add(entryOf(event))
  }

  flush(): void {
    clearImmediate(this.#flushing)
    clearTimeout(this.#startTimer)
    this.#flushing = undefined
    if (this.#isReleased) return
    if (this.#tail !== undefined) this.#parts.onNews()
    if (this.#pending.length === 0 || this.#writing !== undefined) return
    const entries = this.#pending
    this.#pending = []
    this.#pendingBytes = 0
    const write = () => this.#write(entries)
    let written: Promise<void> | undefined
    try {
      written = write()?.catch((error: unknown) => this.persist(write, error))
    } catch (error) {
      written = this.persist(write, error)
    }
    if (written === undefined) {
      this.#written(entries)
      return
    }
    this.#writing = written.then(() => {
      this.#writing = undefined
      if (this.#isReleased) return
      this.#written(entries)
      this.flush()
    })
  }

  /** Post: everything is written, or the run was released. */
  async settled(): Promise<void> {
    this.flush()
    while (this.#writing !== undefined) await this.#writing
  }

  /** Nothing more is written. */
  release(): void {
    this.#isReleased = true
  }

  /** Retries `write` until it succeeds or the run is released. `failure`: the first attempt was made, and failed so. */
  async persist(write: () => Promise<void> | void, failure?: unknown): Promise<void> {
    const { log, row, onNews } = this.#parts
    const fields = { sandboxId: row.sandboxId, runId: row.runId }
    let since = failure === undefined ? undefined : performance.now()
    if (failure !== undefined && !this.#isReleased)
      log.error({ ...fields, err: failure }, 'the journal of a run cannot be written')
    while (!this.#isReleased) {
      try {
        if (since !== undefined) await sleep(TRY_AGAIN_MS, undefined, { ref: false })
        if (!this.#isReleased) await write()
        if (since !== undefined) log.info(fields, 'the journal of a run can be written again')
        this.#trouble = undefined
        return
      } catch (error) {
        since ??= performance.now()
        if (performance.now() - since < TROUBLE_TOLD_MS) continue
        this.#trouble = unwritten(error)
        onNews()
      }
    }
  }

  #add(entry: Entry): void {
    const { space, row } = this.#parts
    if (entry.event.type === 'exit') {
      this.#hasEnded = true
      for (const event of this.#tail?.all() ?? []) this.#keep(entryOf(event))
      this.#keep(entry)
      return
    }
    if (this.#tail === undefined && space.grant(row.sandboxId, entry.bytes, this.#keptBytes)) {
      this.#push(entry)
      return
    }
    this.#tail ??= new RunTail(this.#keptSeq, space.tailBytes(row.sandboxId))
    this.#tail.push(entry)
  }

  #keep(entry: Entry): void {
    const { space, row } = this.#parts
    space.charge(row.sandboxId, entry.bytes)
    this.#push(entry)
  }

  #push(entry: Entry): void {
    this.#pending.push(entry)
    this.#pendingBytes += entry.bytes
    this.#keptBytes += entry.bytes
    this.#keptSeq = entry.event.seq
  }

  #room(bytes: number): Promise<void> | undefined {
    const { pacer } = this.#parts
    this.#takenBytes += bytes
    const turn = this.#takenBytes <= OUTPUT_FREE_BYTES ? undefined : pacer.spend(bytes)
    if (this.#writing === undefined || this.#pendingBytes <= PENDING_MAX_BYTES) return turn
    return turn === undefined ? this.#writing : turn.then(() => this.#writing)
  }

  /** Undefined: it is written. */
  #write(entries: readonly Entry[]): Promise<void> | undefined {
    const { journal, now, row } = this.#parts
    const batch = { run: row.id, entries, now: now(), isLost: this.#isLost }
    if (this.#keptBytes > WRITTEN_HERE_BYTES) return journal.appendAside(batch)
    journal.append(batch)
    return undefined
  }

  #written(entries: readonly Entry[]): void {
    for (const entry of entries) this.#recent.push(entry)
    // From now on the journal has it all.
    if (entries.at(-1)?.event.type === 'exit') this.#tail = undefined
    this.#parts.onNews()
  }
}

function unwritten(cause: unknown): DormouseError {
  return new DormouseError('no_space', 'What the run says cannot be written down.', {
    hint: 'The run continues. Free some disk space on the host, then read its events.',
    cause,
  })
}
