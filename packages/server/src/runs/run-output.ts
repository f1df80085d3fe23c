import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, type Language, type RunEvent } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import { boundEvent, type Entry, entryOf } from './bound-event.ts'
import type { JournalSpace } from './journal-space.ts'
import { OUTPUT_FREE_BYTES, PENDING_MAX_BYTES, RECENT_MAX_BYTES, WRITTEN_HERE_BYTES } from './limits.ts'
import { lostEvents } from './lost-events.ts'
import type { OutputThrottle } from './output-throttle.ts'
import type { RunJournal } from './run-journal.ts'
import type { RunRow } from './run-rows.ts'
import { RunTail } from './run-tail.ts'

export interface RunOutputParts {
  readonly journal: RunJournal
  readonly space: JournalSpace
  readonly throttle: OutputThrottle
  readonly row: RunRow
  readonly now: () => number
  readonly log: Log
  /** There are new events for readers, or `trouble` has changed. */
  readonly onChange: () => void
}

/** `start` is written together with the next event, unless that takes longer than this. */
const START_ALONE_MS = 5
/** Pause between attempts to write to a full disk. */
const TRY_AGAIN_MS = 1_000
/** Readers get an error when the journal cannot be written for this long. */
const TROUBLE_TOLD_MS = 3_000

/**
 * Writes the events of one run into the journal. Events up to the bound of the run are written as they come. Of the
 * events beyond it, the last ones are written at the end, with one `truncated` for those that are missing. Until then
 * they are kept here, for readers that keep up.
 */
export class RunOutput {
  readonly #parts: RunOutputParts
  #lastSeq: number
  /** `seq` of the last event that is in the journal or being written. */
  #keptSeq: number
  #pending: Entry[] = []
  #pendingBytes = 0
  /** Bytes that are in the journal or being written. */
  #keptBytes: number
  #takenBytes = 0
  /**
   * The newest events beyond the bound. The agent has them too, so a server that dies loses none. Readers that keep
   * up see all events.
   */
  #tail: RunTail | undefined
  /** Pending while events are being written, or cannot be. */
  #writing: Promise<void> | undefined
  #trouble: DormouseError | undefined
  #flushing: NodeJS.Immediate | undefined
  #startTimer: NodeJS.Timeout | undefined
  /** The newest events of the journal, so that readers that keep up need not read the database. */
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

  /** Events after `seq`, from memory. Undefined: read them in the journal. */
  recent(seq: number): RunEvent[] | undefined {
    if (this.#tail !== undefined && seq >= this.#tail.startSeq) return this.#tail.after(seq)
    return seq >= this.#recent.droppedSeq ? this.#recent.after(seq) : undefined
  }

  /**
   * Takes one event. Resolves when the next may come; undefined: at once. The agent buffers events that are not
   * taken.
   */
  take(event: RunEvent): Promise<void> | undefined {
    if (event.seq <= this.#lastSeq) return undefined
    this.#lastSeq = event.seq
    if (event.type === 'start') this.#noteLanguage(event.language)
    const entry = entryOf(boundEvent(event))
    this.#add(entry)
    // Events that arrive together are written together. `exit` is written at once.
    if (event.type === 'exit') this.flush()
    else if (event.type === 'start') this.#startTimer = setTimeout(() => this.flush(), START_ALONE_MS)
    else if (this.#pendingBytes > PENDING_MAX_BYTES) this.flush()
    else this.#flushing ??= setImmediate(() => this.flush())
    return this.#room(entry.bytes)
  }

  /** The caller may have left it to the context. */
  #noteLanguage(language: Language | undefined): void {
    const { journal, row, log } = this.#parts
    if (language === undefined || language === row.language) return
    try {
      journal.setLanguage(row.id, language)
    } catch (error) {
      // A full disk: the run itself matters more.
      log.warn({ run: row.runId, err: error }, 'the language of a run could not be recorded')
    }
  }

  /** Ends a run whose processes are gone. */
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
    if (this.#tail !== undefined) this.#parts.onChange()
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

  /** Resolves when all events are written, or the run was released. */
  async settled(): Promise<void> {
    this.flush()
    while (this.#writing !== undefined) await this.#writing
  }

  /** Stops writing. */
  release(): void {
    this.#isReleased = true
  }

  /**
   * Retries `write` until it succeeds or the run is released. `failure`: why the first attempt failed, if there was
   * one.
   */
  async persist(write: () => Promise<void> | void, failure?: unknown): Promise<void> {
    const { log, row, onChange } = this.#parts
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
        onChange()
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
    const { throttle } = this.#parts
    this.#takenBytes += bytes
    const turn = this.#takenBytes <= OUTPUT_FREE_BYTES ? undefined : throttle.spend(bytes)
    if (this.#writing === undefined || this.#pendingBytes <= PENDING_MAX_BYTES) return turn
    return turn === undefined ? this.#writing : turn.then(() => this.#writing)
  }

  /** Returns a promise for large batches; undefined: the batch is written. */
  #write(entries: readonly Entry[]): Promise<void> | undefined {
    const { journal, now, row } = this.#parts
    const batch = { run: row.id, entries, now: now(), isLost: this.#isLost }
    if (this.#keptBytes > WRITTEN_HERE_BYTES) return journal.appendAside(batch)
    journal.append(batch)
    return undefined
  }

  #written(entries: readonly Entry[]): void {
    for (const entry of entries) this.#recent.push(entry)
    // The journal has all events from now on.
    if (entries.at(-1)?.event.type === 'exit') this.#tail = undefined
    this.#parts.onChange()
  }
}

function unwritten(cause: unknown): DormouseError {
  return new DormouseError('no_space', 'The events of the run cannot be recorded.', {
    hint: 'The run continues. Free some disk space on the host, then read its events.',
    cause,
  })
}
