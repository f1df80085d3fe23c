import type { RunEvent, RunId, SandboxId } from '@dormouse/contracts'
import type { Page, RunView } from '../lifecycle/service.ts'
import { cursorOf, positionOf } from '../store/cursor.ts'
import type { Database } from '../store/database.ts'

export interface RunRow {
  /** Of the journal. */
  readonly id: number
  readonly sandboxId: SandboxId
  readonly runId: RunId
  readonly context: string
  readonly language: 'python' | 'bash'
  readonly requestHash: string | undefined
  readonly state: RunView['state']
  readonly startedAt: number
  readonly finishedAt: number | undefined
  readonly exitCode: number | undefined
}

interface StoredRow {
  id: number
  sandbox_id: SandboxId
  run_id: RunId
  context: string
  language: 'python' | 'bash'
  request_hash: string | null
  state: RunView['state']
  started_at: number
  finished_at: number | null
  exit_code: number | null
}

export interface NewRun {
  readonly sandboxId: SandboxId
  readonly runId: RunId
  readonly context: string
  readonly language: 'python' | 'bash'
  readonly idempotencyKey: string | undefined
  readonly requestHash: string | undefined
  readonly startedAt: number
}

/** Enough to fill a socket's buffer, and little enough to hold for every reader. */
const PAGE_EVENTS = 256

/** What every run said, on disk before anybody is told. */
export class RunJournal {
  readonly #db: Database
  readonly #insert
  readonly #insertEvent
  readonly #begin
  readonly #finish
  readonly #get
  readonly #byKey
  readonly #events
  readonly #lastSeq

  constructor(db: Database) {
    this.#db = db
    this.#insert = db.prepare<(string | number | null)[]>(
      `INSERT INTO runs (sandbox_id, run_id, context, language, idempotency_key, request_hash, state, started_at)
       VALUES (?, ?, ?, ?, ?, ?, 'queued', ?)`,
    )
    this.#insertEvent = db.prepare<[number, number, string]>(
      'INSERT OR IGNORE INTO events (run, seq, event) VALUES (?, ?, ?)',
    )
    this.#begin = db.prepare<[number]>("UPDATE runs SET state = 'running' WHERE id = ? AND state = 'queued'")
    this.#finish = db.prepare<[string, number, number | null, number]>(
      'UPDATE runs SET state = ?, finished_at = ?, exit_code = ? WHERE id = ?',
    )
    this.#get = db.prepare<[string, string], StoredRow>(
      'SELECT * FROM runs WHERE sandbox_id = ? AND run_id = ?',
    )
    this.#byKey = db.prepare<[string, string], StoredRow>(
      'SELECT * FROM runs WHERE sandbox_id = ? AND idempotency_key = ?',
    )
    this.#events = db.prepare<[number, number, number], { event: string }>(
      'SELECT event FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?',
    )
    this.#lastSeq = db.prepare<[number], { seq: number | null }>(
      'SELECT max(seq) AS seq FROM events WHERE run = ?',
    )
  }

  add(run: NewRun): RunRow {
    const { lastInsertRowid } = this.#insert.run(
      run.sandboxId,
      run.runId,
      run.context,
      run.language,
      run.idempotencyKey ?? null,
      run.requestHash ?? null,
      run.startedAt,
    )
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
    }
  }

  /** One commit, however many there are. Answers how long they are. */
  append(run: number, events: readonly RunEvent[], now: number): number {
    const isOver = events.at(-1)?.type === 'exit'
    let characters = 0
    this.#db.transaction(() => {
      if (!isOver) this.#begin.run(run)
      for (const event of events) {
        const text = JSON.stringify(event)
        characters += text.length
        this.#insertEvent.run(run, event.seq, text)
        if (event.type === 'exit') this.#finish.run('finished', now, event.exitCode, run)
      }
    })
    return characters
  }

  /** Its processes are gone and it with them. What was said stays, and an end is put to it. Answers as `append`. */
  endLost(run: number, events: readonly RunEvent[], now: number): number {
    return this.#db.transaction(() => {
      const characters = this.append(run, events, now)
      this.#finish.run('lost', now, -1, run)
      return characters
    })
  }

  /** It was never begun, and the caller was told. */
  forget(run: number): void {
    this.#db.prepare<[number]>('DELETE FROM runs WHERE id = ?').run(run)
  }

  get(sandboxId: SandboxId, runId: string): RunRow | undefined {
    return toRow(this.#get.get(sandboxId, runId))
  }

  byKey(sandboxId: SandboxId, idempotencyKey: string): RunRow | undefined {
    return toRow(this.#byKey.get(sandboxId, idempotencyKey))
  }

  page(run: number, after: number): RunEvent[] {
    return this.#events.all(run, after, PAGE_EVENTS).map(({ event }) => JSON.parse(event) as RunEvent)
  }

  lastSeq(run: number): number {
    return this.#lastSeq.get(run)?.seq ?? -1
  }

  /** Neither finished nor lost, as far as is known. */
  open(sandboxId: SandboxId): RunRow[] {
    return this.#db
      .prepare<[string], StoredRow>(
        "SELECT * FROM runs WHERE sandbox_id = ? AND state IN ('queued', 'running') ORDER BY id",
      )
      .all(sandboxId)
      .map((row) => toRow(row) as RunRow)
  }

  list(sandboxId: SandboxId, { limit, cursor }: { limit: number; cursor?: string }): Page<RunRow> {
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : positionOf(cursor)[0]
    const rows = this.#db
      .prepare<[string, number, number], StoredRow>(
        'SELECT * FROM runs WHERE sandbox_id = ? AND id < ? ORDER BY id DESC LIMIT ?',
      )
      .all(sandboxId, before, limit + 1)
      .map((row) => toRow(row) as RunRow)
    const items = rows.slice(0, limit)
    const last = items.at(-1)
    const hasMore = rows.length > limit && last !== undefined
    return { items, nextCursor: hasMore ? cursorOf(last.id, 'run') : undefined }
  }

  /** A child goes on with the runs that were under way in its parent. */
  copyOpen(from: SandboxId, to: SandboxId): void {
    this.#db.transaction(() => {
      for (const run of this.open(from)) {
        const { lastInsertRowid } = this.#db
          .prepare<[string, number]>(
            `INSERT INTO runs (sandbox_id, run_id, context, language, state, started_at)
             SELECT ?, run_id, context, language, state, started_at FROM runs WHERE id = ?`,
          )
          .run(to, run.id)
        this.#db
          .prepare<[number, number]>('INSERT INTO events SELECT ?, seq, event FROM events WHERE run = ?')
          .run(Number(lastInsertRowid), run.id)
      }
    })
  }

  deleteOf(sandboxId: SandboxId): void {
    this.#db.prepare<[string]>('DELETE FROM runs WHERE sandbox_id = ?').run(sandboxId)
  }

  /** Drops the oldest finished ones beyond `keep`, and all that ended before `before`. */
  prune(sandboxId: SandboxId, { keep, before }: { keep: number; before: number }): void {
    this.#db
      .prepare<[string, number, string, number]>(
        `DELETE FROM runs WHERE sandbox_id = ? AND finished_at IS NOT NULL AND (finished_at < ? OR id <=
         (SELECT id FROM runs WHERE sandbox_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?))`,
      )
      .run(sandboxId, before, sandboxId, keep)
  }

  /** Sandboxes with entries here. */
  sandboxIds(): SandboxId[] {
    return this.#db
      .prepare<[], { sandbox_id: SandboxId }>('SELECT DISTINCT sandbox_id FROM runs')
      .all()
      .map((row) => row.sandbox_id)
  }

  /**
   * Post: what was committed is on disk also after a power cut. Not by a checkpoint: the first commit after one begins the WAL anew and
   * waits for the disk, and that would be the first run after a wake.
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
  }
}
