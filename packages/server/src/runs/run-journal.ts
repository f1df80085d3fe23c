import type { Language, RunEvent, RunId, SandboxId } from '@dormouse/contracts'
import type { RunAnswer } from '@dormouse/contracts/http'
import type { StartRun } from '@dormouse/engine'
import { cursorOf, positionOf } from '../store/cursor.ts'
import type { SharedDatabase } from '../store/database.ts'
import type { Page } from '../store/page.ts'
import type { Entry } from './bound-event.ts'
import type { KeptCode } from './kept-code.ts'
import { FORKED_MAX_BYTES, PAGE_BYTES, PAGE_EVENTS, RUN_OVERHEAD_BYTES } from './limits.ts'

export interface RunRow {
  /** Row id in the journal. */
  readonly id: number
  readonly sandboxId: SandboxId
  readonly runId: RunId
  readonly context: string
  readonly language: Language
  readonly requestHash: string | undefined
  readonly state: RunAnswer['state']
  readonly startedAt: number
  readonly finishedAt: number | undefined
  readonly exitCode: number | undefined
  /** The journal keeps its request, because the sandbox does not have it yet. */
  readonly isUnsent: boolean
  /** Its size in the journal. */
  readonly bytes: number
  /** Its beginning if `isCodeCut`. Undefined: an older version started it. */
  readonly code: string | undefined
  readonly isCodeCut: boolean
}

interface StoredRow {
  id: number
  sandbox_id: SandboxId
  run_id: RunId
  context: string
  language: Language
  request_hash: string | null
  state: RunAnswer['state']
  started_at: number
  finished_at: number | null
  exit_code: number | null
  is_unsent: 0 | 1
  bytes: number
  code: string | null
  is_code_cut: 0 | 1
}

/** Without the request: a list of queued runs could be large. */
const COLUMNS =
  'id, sandbox_id, run_id, context, language, request_hash, state, started_at, finished_at, exit_code, bytes, code, is_code_cut, request IS NOT NULL AS is_unsent'

export interface NewRun {
  readonly sandboxId: SandboxId
  readonly runId: RunId
  readonly context: string
  readonly language: Language
  readonly idempotencyKey: string | undefined
  readonly requestHash: string | undefined
  readonly startedAt: number
  /** Kept while the run waits for its sandbox to wake, so that the next server can start it. */
  readonly request?: StartRun | undefined
  readonly kept: KeptCode
}

export interface FinishedRun {
  readonly id: number
  /** Its size in the journal, and what its code takes of that. */
  readonly bytes: number
  readonly codeBytes: number
  readonly finishedAt: number
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

/** The recorded events of runs. Events are on disk before a reader gets them. */
export class RunJournal {
  readonly #db: SharedDatabase
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
  #walPages = 0

  constructor(db: SharedDatabase) {
    this.#db = db
    this.#insert = db.prepare<(string | number | null)[]>(
      `INSERT INTO runs (sandbox_id, run_id, context, language, idempotency_key, request_hash, state, started_at, request,
         code, is_code_cut, bytes)
       VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?)`,
    )
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
  }

  add(run: NewRun): RunRow {
    const bytes = RUN_OVERHEAD_BYTES + run.kept.bytes
    const { lastInsertRowid } = this.#db.write(() =>
      this.#insert.run(
        run.sandboxId,
        run.runId,
        run.context,
        run.language,
        run.idempotencyKey ?? null,
        run.requestHash ?? null,
        run.startedAt,
        run.request === undefined ? null : JSON.stringify(run.request),
        run.kept.code,
        run.kept.isCut ? 1 : 0,
        bytes,
      ),
    )
    this.#wrote(run.kept.bytes)
    return {
      id: Number(lastInsertRowid),
      sandboxId: run.sandboxId,
      runId: run.runId,
      context: run.context,
      language: run.language,
      requestHash: run.requestHash,
      state: 'queued',
      startedAt: run.startedAt,
      finishedAt: undefined,
      exitCode: undefined,
      isUnsent: run.request !== undefined,
      bytes,
      code: run.kept.code,
      isCodeCut: run.kept.isCut,
    }
  }

  setLanguage(run: number, language: Language): void {
    this.#db.write(() =>
      this.#db.prepare<[string, number]>('UPDATE runs SET language = ? WHERE id = ?').run(language, run),
    )
  }

  /** The request to start. Undefined: the sandbox may have it already. */
  requestOf(run: number): StartRun | undefined {
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
    this.#db.write(() => this.#db.prepare<[number]>('UPDATE runs SET request = NULL WHERE id = ?').run(run))
  }

  /** Writes all events in one commit. */
  append({ run, entries, now, isLost }: EventBatch): void {
    const { bytes, exitCode } = sumOf(entries)
    this.#db.transaction(() => {
      for (const { event } of entries) this.#insertEvent.run(run, event.seq, JSON.stringify(event))
      if (exitCode === undefined) this.#grow.run(bytes, run)
      else this.#finish.run(isLost ? 'lost' : 'finished', now, exitCode, bytes, run)
    })
    this.#wrote(bytes)
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
    this.#db.write(() => this.#db.prepare<[number]>('DELETE FROM runs WHERE id = ?').run(run))
  }

  get(sandboxId: SandboxId, runId: string): RunRow | undefined {
    return toRow(this.#get.get(sandboxId, runId))
  }

  byKey(sandboxId: SandboxId, idempotencyKey: string): RunRow | undefined {
    return toRow(this.#byKey.get(sandboxId, idempotencyKey))
  }

  /** One page of events after `after`. `isFull`: there may be more. */
  page(run: number, after: number): { events: RunEvent[]; isFull: boolean } {
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
    return this.#lastSeq.get(run)?.seq ?? -1
  }

  /** Runs of a sandbox that are neither finished nor lost. */
  open(sandboxId: SandboxId): RunRow[] {
    return this.#db
      .prepare<[string], StoredRow>(
        `SELECT ${COLUMNS} FROM runs WHERE sandbox_id = ? AND state IN ('queued', 'running') ORDER BY id`,
      )
      .all(sandboxId)
      .map((row) => toRow(row) as RunRow)
  }

  /** Runs of all sandboxes that have no event yet, oldest first. */
  queued(): RunRow[] {
    return this.#db
      .prepare<[], StoredRow>(`SELECT ${COLUMNS} FROM runs WHERE state IN ('queued', 'running') ORDER BY id`)
      .all()
      .filter(({ state }) => state === 'queued')
      .map((row) => toRow(row) as RunRow)
  }

  list(sandboxId: SandboxId, { limit, cursor }: { limit: number; cursor?: string }): Page<RunRow> {
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
    return this.#bytesOf.get(sandboxId)?.bytes ?? 0
  }

  /** Finished runs of a sandbox, oldest first. */
  finished(sandboxId: SandboxId): FinishedRun[] {
    return this.#finished.all(sandboxId)
  }

  /** Sandboxes that have runs here. */
  sandboxIds(): SandboxId[] {
    return this.#db
      .prepare<[], { sandbox_id: SandboxId }>('SELECT DISTINCT sandbox_id FROM runs')
      .all()
      .map((row) => row.sandbox_id)
  }

  /**
   * Post: all commits survive a power cut. Not by a checkpoint: the first commit after a checkpoint restarts the WAL
   * and waits for the disk, and that would be the first run after a wake.
   */
  sync(): Promise<void> {
    return this.#db.sync()
  }
}

function toRow(row: StoredRow | undefined): RunRow | undefined {
  if (row === undefined) return undefined
  return {
    id: row.id,
    sandboxId: row.sandbox_id,
    runId: row.run_id,
    context: row.context,
    language: row.language,
    requestHash: row.request_hash ?? undefined,
    state: row.state,
    startedAt: row.started_at,
    finishedAt: row.finished_at ?? undefined,
    exitCode: row.exit_code ?? undefined,
    isUnsent: row.is_unsent === 1,
    bytes: row.bytes,
    code: row.code ?? undefined,
    isCodeCut: row.is_code_cut === 1,
  }
}

function sumOf(entries: readonly Entry[]): { bytes: number; exitCode: number | undefined } {
  const last = entries.at(-1)?.event
  return {
    bytes: entries.reduce((sum, { bytes }) => sum + bytes, 0),
    exitCode: last?.type === 'exit' ? last.exitCode : undefined,
  }
}
