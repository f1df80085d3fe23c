import type { Language, RunEvent, SandboxId } from '@dormouse/contracts'
import type { StartRun } from '@dormouse/engine'
import { cursorOf, positionOf } from '../store/cursor.ts'
import type { SharedDatabase } from '../store/database.ts'
import type { Page } from '../store/page.ts'
import { isConstraintViolation } from '../store/sqlite-error.ts'
import type { SqlValue } from '../store/statement.ts'
import type { Entry } from './bound-event.ts'
import { FORKED_MAX_BYTES, PAGE_BYTES, PAGE_EVENTS, RUN_OVERHEAD_BYTES } from './limits.ts'
import { RunLog } from './run-log.ts'
import {
  COLUMNS,
  type FinishedRun,
  INSERT_RUN,
  type NewRun,
  type RunRow,
  rowOf,
  type StoredRow,
  toRow,
  valuesOf,
} from './run-rows.ts'

/** A row of `runs`, or new events of one run. */
type Change = { readonly row: readonly SqlValue[] } | NewEvents

interface NewEvents {
  readonly run: number
  readonly events: readonly RunEvent[]
  readonly bytes: number
  /** Parameters of `FINISH` if these are the last ones. */
  readonly end?: readonly [state: string, now: number, exitCode: number, bytes: number, run: number]
}

export interface RunJournalOptions {
  /** Of the log in front of the database. */
  readonly logPath: string
  /** Whether the disk has room for records. Without, all is written into the database, which can say so. */
  readonly hasRoom: () => boolean
}

/** New events of one run. */
export interface EventBatch {
  readonly run: number
  readonly entries: readonly Entry[]
  readonly now: number
  /** Its processes are gone: the server made up the `exit`. */
  readonly isLost: boolean
}

/** After this many pages SQLite would checkpoint by itself; pages that a commit of a short run touches besides. */
const WAL_PAGES = 1_000
const COMMIT_PAGES = 4
const DATABASE_PAGE_BYTES = 4_096

const INSERT_EVENT = 'INSERT OR IGNORE INTO events (run, seq, event) VALUES (?, ?, ?)'
const GROW = `UPDATE runs SET state = 'running', bytes = bytes + ? WHERE id = ? AND state IN ('queued', 'running')`
const FINISH =
  'UPDATE runs SET state = ?, finished_at = ?, exit_code = ?, bytes = bytes + ?, request = NULL WHERE id = ?'

const CREATE_APPLIED =
  'CREATE TABLE IF NOT EXISTS applied (id INTEGER PRIMARY KEY CHECK (id = 1), change INTEGER NOT NULL) STRICT'

/**
 * The recorded events of runs. Events are on disk before a reader gets them: in the database, or in the log in front of
 * it, which is moved into the database before anything is read there.
 */
export class RunJournal implements Disposable {
  readonly #db: SharedDatabase
  readonly #log: RunLog<Change>
  readonly #insert
  readonly #insertEvent
  readonly #grow
  readonly #finish
  readonly #get
  readonly #byKey
  readonly #events
  readonly #lastSeq
  readonly #bytesOf
  readonly #finished
  /** Rows that are in the log only, by sandbox and run, and by sandbox and `idempotencyKey`. */
  readonly #waiting = new Map<string, RunRow>()
  #lastId: number
  #walPages = 0

  constructor(db: SharedDatabase, { logPath, hasRoom }: RunJournalOptions) {
    this.#db = db
    this.#insert = db.prepare<readonly SqlValue[]>(INSERT_RUN)
    this.#insertEvent = db.prepare<[number, number, string]>(INSERT_EVENT)
    this.#grow = db.prepare<[number, number]>(GROW)
    this.#finish = db.prepare<[string, number, number, number, number]>(FINISH)
    this.#get = db.prepare<[string, string], StoredRow>(
      `SELECT ${COLUMNS} FROM runs WHERE sandbox_id = ? AND run_id = ?`,
    )
    this.#byKey = db.prepare<[string, string], StoredRow>(
      `SELECT ${COLUMNS} FROM runs WHERE sandbox_id = ? AND idempotency_key = ?`,
    )
    this.#events = db.prepare<[number, number, number], { event: string }>(
      'SELECT event FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?',
    )
    this.#lastSeq = db.prepare<[number], { seq: number | null }>(
      'SELECT max(seq) AS seq FROM events WHERE run = ?',
    )
    this.#bytesOf = db.prepare<[string], { bytes: number | null }>(
      'SELECT sum(bytes) AS bytes FROM runs WHERE sandbox_id = ?',
    )
    this.#finished = db.prepare<[string], FinishedRun>(
      `SELECT id, bytes, coalesce(octet_length(code), 0) AS codeBytes, finished_at AS finishedAt FROM runs
       WHERE sandbox_id = ? AND finished_at IS NOT NULL ORDER BY id`,
    )
    this.#log = new RunLog({
      ...{ path: logPath, hasRoom, apply: (changes, last) => this.#apply(changes, last) },
      applied: lastApplied(db),
    })
    this.#lastId = db.prepare<[], { id: number | null }>('SELECT max(id) AS id FROM runs').get()?.id ?? 0
  }

  [Symbol.dispose](): void {
    this.#log[Symbol.dispose]()
  }

  /** Moves the log into the database. On a full disk it stays where it is. */
  settle(): void {
    try {
      this.#log.flush()
    } catch {
      // Writes report it.
    }
  }

  add(run: NewRun): RunRow {
    const bytes = RUN_OVERHEAD_BYTES + run.kept.bytes
    const id = this.#lastId + 1
    this.#write({ row: valuesOf(run, id, bytes) }, bytes + (run.request?.code.length ?? 0))
    this.#lastId = id
    const row = rowOf(run, id, bytes)
    if (this.#log.waitingCount === 0) return row
    this.#waiting.set(keyOf(run.sandboxId, run.runId), row)
    if (run.idempotencyKey !== undefined)
      this.#waiting.set(keyOf(run.sandboxId, `key ${run.idempotencyKey}`), row)
    return row
  }

  #write(change: Change, bytes: number): void {
    if (!this.#log.append(change, bytes)) this.#db.transaction(() => this.#applyOne(change))
  }

  #apply(changes: readonly Change[], last: number): void {
    this.#db.transaction(() => {
      const refused = new Set<unknown>()
      for (const change of changes) this.#applyIfPossible(change, refused)
      this.#db.prepare<[number]>('UPDATE applied SET change = ?').run(last)
    })
    this.#waiting.clear()
  }

  /** Leaves out what contradicts the database: an older version, which knows no log, may have used an id meanwhile. */
  #applyIfPossible(change: Change, refused: Set<unknown>): void {
    if ('run' in change && refused.has(change.run)) return
    try {
      this.#db.transaction(() => this.#applyOne(change))
    } catch (error) {
      if (!isConstraintViolation(error)) throw error
      if ('row' in change) refused.add(change.row[0])
    }
  }

  #applyOne(change: Change): void {
    if ('row' in change) {
      this.#insert.run(...change.row)
      this.#wrote(DATABASE_PAGE_BYTES)
      return
    }
    const { run, events, bytes, end } = change
    for (const event of events) this.#insertEvent.run(run, event.seq, JSON.stringify(event))
    if (end === undefined) this.#grow.run(bytes, run)
    else this.#finish.run(...end)
    this.#wrote(bytes)
  }

  /** Appends events; in one commit if they are too many for the log. */
  append({ run, entries, now, isLost }: EventBatch): void {
    const { bytes, exitCode } = sumOf(entries)
    const events = entries.map(({ event }) => event)
    const end = exitCode !== undefined && {
      end: [isLost ? 'lost' : 'finished', now, exitCode, bytes, run] as const,
    }
    this.#write({ run, events, bytes, ...end }, bytes)
  }

  setLanguage(run: number, language: Language): void {
    this.#log.flush()
    this.#db.write(() =>
      this.#db.prepare<[string, number]>('UPDATE runs SET language = ? WHERE id = ?').run(language, run),
    )
  }

  /** The request to start. Undefined: the sandbox may have it already. */
  requestOf(run: number): StartRun | undefined {
    this.settle()
    const row = this.#db
      .prepare<[number], { request: string | null }>('SELECT request FROM runs WHERE id = ?')
      .get(run)
    return row?.request == null ? undefined : (JSON.parse(row.request) as StartRun)
  }

  /**
   * Call before the request is sent. A server that finds the run then asks the sandbox for it, and never starts it
   * again.
   */
  dropRequest(run: number): void {
    this.#log.flush()
    this.#db.write(() => this.#db.prepare<[number]>('UPDATE runs SET request = NULL WHERE id = ?').run(run))
  }

  /** Checkpoints a long WAL on another thread, because that waits for the disk. */
  #wrote(bytes: number): void {
    this.#walPages += COMMIT_PAGES + bytes / DATABASE_PAGE_BYTES
    if (this.#walPages < WAL_PAGES) return
    this.#walPages = 0
    // A failing disk also fails the next commit, which reports it.
    this.#db.thread.checkpoint().catch(() => {})
  }

  /** Does the same on another thread, for large batches. Resolves when they are committed. */
  async appendAside({ run, entries, now, isLost }: EventBatch): Promise<void> {
    this.#log.flush()
    const { bytes, exitCode } = sumOf(entries)
    const end =
      exitCode === undefined
        ? { sql: GROW, rows: [[bytes, run]] }
        : { sql: FINISH, rows: [[isLost ? 'lost' : 'finished', now, exitCode, bytes, run]] }
    const rows = entries.map(({ event }) => [run, event.seq, JSON.stringify(event)])
    await this.#db.thread.write([{ sql: INSERT_EVENT, rows }, end])
  }

  /** Removes a run that was refused. */
  forget(run: number): void {
    this.#log.flush()
    this.#db.write(() => this.#db.prepare<[number]>('DELETE FROM runs WHERE id = ?').run(run))
  }

  get(sandboxId: SandboxId, runId: string): RunRow | undefined {
    this.settle()
    return toRow(this.#get.get(sandboxId, runId)) ?? this.#waiting.get(keyOf(sandboxId, runId))
  }

  byKey(sandboxId: SandboxId, idempotencyKey: string): RunRow | undefined {
    return (
      this.#waiting.get(keyOf(sandboxId, `key ${idempotencyKey}`)) ??
      toRow(this.#byKey.get(sandboxId, idempotencyKey))
    )
  }

  /** One page of events after `after`. `isFull`: there may be more. */
  page(run: number, after: number): { events: RunEvent[]; isFull: boolean } {
    this.settle()
    const events: RunEvent[] = []
    let characters = 0
    for (const { event } of this.#events.iterate(run, after, PAGE_EVENTS)) {
      events.push(JSON.parse(event) as RunEvent)
      characters += event.length
      if (characters >= PAGE_BYTES) return { events, isFull: true }
    }
    return { events, isFull: events.length === PAGE_EVENTS }
  }

  lastSeq(run: number): number {
    this.settle()
    return this.#lastSeq.get(run)?.seq ?? -1
  }

  /** Runs of a sandbox that are neither finished nor lost. */
  open(sandboxId: SandboxId): RunRow[] {
    this.settle()
    return this.#db
      .prepare<[string], StoredRow>(
        `SELECT ${COLUMNS} FROM runs WHERE sandbox_id = ? AND state IN ('queued', 'running') ORDER BY id`,
      )
      .all(sandboxId)
      .map((row) => toRow(row) as RunRow)
  }

  /** Runs of all sandboxes that have no event yet, oldest first. */
  queued(): RunRow[] {
    this.settle()
    return this.#db
      .prepare<[], StoredRow>(`SELECT ${COLUMNS} FROM runs WHERE state IN ('queued', 'running') ORDER BY id`)
      .all()
      .filter(({ state }) => state === 'queued')
      .map((row) => toRow(row) as RunRow)
  }

  list(sandboxId: SandboxId, { limit, cursor }: { limit: number; cursor?: string }): Page<RunRow> {
    this.settle()
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : positionOf(cursor)[0]
    const rows = this.#db
      .prepare<[string, number, number], StoredRow>(
        `SELECT ${COLUMNS} FROM runs WHERE sandbox_id = ? AND id < ? ORDER BY id DESC LIMIT ?`,
      )
      .all(sandboxId, before, limit + 1)
      .map((row) => toRow(row) as RunRow)
    const items = rows.slice(0, limit)
    const last = items.at(-1)
    const hasMore = rows.length > limit && last !== undefined
    return { items, nextCursor: hasMore ? cursorOf(last.id, 'run') : undefined }
  }

  /**
   * The child of a fork continues the runs of its parent. The child gets the first events of long runs; its agent has
   * the rest.
   */
  copyOpen(from: SandboxId, to: SandboxId): void {
    this.#log.flush()
    this.#db.transaction(() => {
      for (const run of this.open(from)) {
        if (run.isUnsent) continue
        const { until, bytes } = this.#beginning(run.id)
        const { lastInsertRowid } = this.#db
          .prepare<[string, number, number]>(
            `INSERT INTO runs (sandbox_id, run_id, context, language, state, started_at, code, is_code_cut, bytes)
             SELECT ?, run_id, context, language, state, started_at, code, is_code_cut, ? FROM runs WHERE id = ?`,
          )
          .run(to, RUN_OVERHEAD_BYTES + Buffer.byteLength(run.code ?? '') + bytes, run.id)
        this.#db
          .prepare<[number, number, number]>(
            'INSERT INTO events SELECT ?, seq, event FROM events WHERE run = ? AND seq <= ?',
          )
          .run(Number(lastInsertRowid), run.id, until)
        this.#lastId = Math.max(this.#lastId, Number(lastInsertRowid))
      }
    })
  }

  #beginning(run: number): { until: number; bytes: number } {
    const sizes = this.#db.prepare<[number], { seq: number; bytes: number }>(
      'SELECT seq, octet_length(event) AS bytes FROM events WHERE run = ? ORDER BY seq',
    )
    let until = -1
    let sum = 0
    for (const { seq, bytes } of sizes.iterate(run)) {
      if (sum + bytes > FORKED_MAX_BYTES) break
      until = seq
      sum += bytes
    }
    return { until, bytes: sum }
  }

  /** Size of all runs of a sandbox. */
  bytesOf(sandboxId: SandboxId): number {
    this.settle()
    return this.#bytesOf.get(sandboxId)?.bytes ?? 0
  }

  /** Finished runs of a sandbox, oldest first. */
  finished(sandboxId: SandboxId): FinishedRun[] {
    this.settle()
    return this.#finished.all(sandboxId)
  }

  /** Sandboxes that have runs here. */
  sandboxIds(): SandboxId[] {
    this.settle()
    return this.#db
      .prepare<[], { sandbox_id: SandboxId }>('SELECT DISTINCT sandbox_id FROM runs')
      .all()
      .map((row) => row.sandbox_id)
  }

  /**
   * Post: all commits survive a power cut. Not by a checkpoint: the first commit after a checkpoint restarts the WAL
   * and waits for the disk, and that would be the first run after a wake.
   */
  async sync(): Promise<void> {
    this.#log.flush()
    await this.#db.sync()
  }
}

/**
 * The number of the last change of the log that is in the database. Not a migration: the version before can then still
 * open the database, and leaves the table alone.
 */
function lastApplied(db: SharedDatabase): number {
  db.write(() => db.prepare<[]>(CREATE_APPLIED).run())
  const found = db.prepare<[], { change: number }>('SELECT change FROM applied').get()?.change
  if (found === undefined) db.write(() => db.prepare<[]>('INSERT INTO applied VALUES (1, 0)').run())
  return found ?? 0
}

function keyOf(sandboxId: SandboxId, name: string): string {
  return `${sandboxId} ${name}`
}

function sumOf(entries: readonly Entry[]): { bytes: number; exitCode: number | undefined } {
  const last = entries.at(-1)?.event
  return {
    bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
    exitCode: last?.type === 'exit' ? last.exitCode : undefined,
  }
}
