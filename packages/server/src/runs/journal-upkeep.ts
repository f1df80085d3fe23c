import { setImmediate as nextTurn } from 'node:timers/promises'
import type { SandboxId, TruncatedEvent } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import type { SharedDatabase } from '../store/database.ts'
import { truncation } from './bound-event.ts'
import {
  DELETED_AT_ONCE_BYTES,
  DELETED_AT_ONCE_EVENTS,
  DELETED_AT_ONCE_RUNS,
  EVENT_OVERHEAD_BYTES,
  FREE_PAGES,
  RETURNED_AT_ONCE_PAGES,
  RUN_OVERHEAD_BYTES,
} from './limits.ts'

interface StoredRun {
  readonly id: number
  readonly bytes: number
}

/** Events of a run that are deleted in one transaction. */
interface Slice {
  readonly count: number
  readonly lastSeq: number
  readonly bytes: number
  /** Bytes of events that were already missing there. */
  readonly missingBytes: number
}

interface StoredSize {
  readonly seq: number
  readonly bytes: number
  /** The JSON of the event if it is a `truncated`. */
  readonly mark: string | null
}

const DELETE_SOME = `DELETE FROM events WHERE run = ? AND seq <=
  (SELECT max(seq) FROM (SELECT seq FROM events WHERE run = ? ORDER BY seq LIMIT ?))`

/**
 * Deletes runs and events from the journal and returns the space to the file system, on another thread, in small
 * transactions. The next server does what this one leaves undone because it ends or its disk is full.
 */
export class JournalUpkeep implements AsyncDisposable {
  readonly #db: SharedDatabase
  readonly #log: Log
  readonly #sizes
  readonly #lastSeq
  readonly #runs
  #queue: Promise<void> = Promise.resolve()
  #waiting = 0
  #isClosed = false

  constructor(db: SharedDatabase, log: Log) {
    this.#db = db
    this.#log = log
    // SQLite knows the length of a text without reading it, and no `truncated` is longer than 200 bytes.
    this.#sizes = db.prepare<[number, number, number, number], StoredSize>(
      `SELECT seq, octet_length(event) AS bytes,
         CASE WHEN octet_length(event) <= 200 AND event LIKE '{"seq":%,"type":"truncated",%' THEN event END AS mark
       FROM events WHERE run = ? AND seq > ? AND seq < ? ORDER BY seq LIMIT ?`,
    )
    this.#lastSeq = db.prepare<[number], { seq: number | null }>(
      'SELECT max(seq) AS seq FROM events WHERE run = ?',
    )
    this.#runs = db.prepare<[string], StoredRun>(
      `SELECT id, bytes FROM runs WHERE sandbox_id = ? ORDER BY id LIMIT ${DELETED_AT_ONCE_RUNS}`,
    )
  }

  /** Removes all events of a finished run but `start` and `exit`, and puts one `truncated` between them. */
  strip(run: StoredRun, onDone: () => void): void {
    this.#then(() => this.#strip(run.id), onDone)
  }

  /**
   * Deletes finished runs, several in one transaction: after each transaction of the other thread the event loop reads
   * the pages that it needs for its next run again.
   */
  removeRuns(runs: readonly StoredRun[], onDone: () => void): void {
    this.#then(async () => {
      for (let at = 0; at < runs.length; at += DELETED_AT_ONCE_RUNS)
        await this.#remove(runs.slice(at, at + DELETED_AT_ONCE_RUNS))
    }, onDone)
  }

  removeSandbox(id: SandboxId): void {
    this.#then(async () => {
      for (let runs = this.#runs.all(id); runs.length > 0; runs = this.#runs.all(id)) await this.#remove(runs)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await this.#queue
  }

  /** Resolves when all requested work is done. */
  settled(): Promise<void> {
    return this.#queue
  }

  #then(work: () => Promise<void>, onDone?: () => void): void {
    this.#waiting += 1
    this.#queue = this.#queue
      .then(async () => {
        this.#waiting -= 1
        await work()
        if (this.#waiting === 0) await this.#returnSpace()
      })
      .catch((error: unknown) => {
        if (error !== CLOSED) this.#log.warn({ err: error }, 'the upkeep of the journal failed')
      })
      .finally(onDone)
  }

  async #strip(run: number): Promise<void> {
    const exitSeq = this.#lastSeq.get(run)?.seq ?? 0
    let bytes = 0
    let before = 0
    for (;;) {
      const slice = this.#slice(run, before, exitSeq)
      if (slice === undefined) return
      const { count, lastSeq } = slice
      bytes += slice.bytes + slice.missingBytes
      const mark = JSON.stringify(truncation({ seq: lastSeq, events: lastSeq, bytes }))
      const freed = slice.bytes + count * EVENT_OVERHEAD_BYTES
      // From the front, with the mark in the same transaction: a reader sees the mark or the events, never a gap.
      await this.#write([
        { sql: 'DELETE FROM events WHERE run = ? AND seq > 0 AND seq <= ?', rows: [[run, lastSeq]] },
        { sql: 'INSERT INTO events (run, seq, event) VALUES (?, ?, ?)', rows: [[run, lastSeq, mark]] },
        {
          sql: `UPDATE runs SET bytes = max(${RUN_OVERHEAD_BYTES}, bytes - ?) WHERE id = ?`,
          rows: [[freed, run]],
        },
      ])
      before = lastSeq
    }
  }

  async #remove(runs: readonly StoredRun[]): Promise<void> {
    const small = runs.filter(({ bytes }) => bytes <= DELETED_AT_ONCE_BYTES / 16)
    await this.#write([{ sql: 'DELETE FROM runs WHERE id = ?', rows: small.map(({ id }) => [id]) }])
    for (const { id } of runs.filter((run) => !small.includes(run))) {
      while ((await this.#write([{ sql: DELETE_SOME, rows: [[id, id, DELETED_AT_ONCE_EVENTS]] }])) > 0);
      await this.#write([{ sql: 'DELETE FROM runs WHERE id = ?', rows: [[id]] }])
    }
  }

  #slice(run: number, after: number, before: number): Slice | undefined {
    let [count, lastSeq, bytes, missingBytes] = [0, after, 0, 0]
    for (const row of this.#sizes.all(run, after, before, DELETED_AT_ONCE_EVENTS)) {
      if (count > 0 && bytes + row.bytes > DELETED_AT_ONCE_BYTES) break
      count += 1
      lastSeq = row.seq
      if (row.mark === null) bytes += row.bytes
      else missingBytes += (JSON.parse(row.mark) as TruncatedEvent).bytes
    }
    return count === 0 ? undefined : { count, lastSeq, bytes, missingBytes }
  }

  /** Returns free pages to the file system, but for a few that the next runs will use. */
  async #returnSpace(): Promise<void> {
    if (this.#db.freePages() <= FREE_PAGES) return
    let free = this.#db.freePages()
    while (free > FREE_PAGES && this.#waiting === 0) {
      await this.#write([{ sql: `PRAGMA incremental_vacuum(${RETURNED_AT_ONCE_PAGES})` }])
      const left = this.#db.freePages()
      // A journal of an older version that could not be rewritten keeps its pages.
      if (left >= free) break
      free = left
    }
    await this.#db.thread.checkpoint()
  }

  async #write(steps: Parameters<SharedDatabase['thread']['write']>[0]): Promise<number> {
    if (this.#isClosed) throw CLOSED
    const changes = await this.#db.thread.write(steps)
    // Other writers get their turn.
    await nextTurn()
    return changes
  }
}

const CLOSED = new Error('the journal is being closed')
