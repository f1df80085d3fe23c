import type { JobId, SandboxId, SnapshotId } from '@dormouse/contracts'
import type { createJobSchema } from '@dormouse/contracts/http'
import type { z } from 'zod'
import type { Database } from '../store/database.ts'
import { newestPage } from '../store/newest-page.ts'
import type { Page } from '../store/page.ts'
import { isUniqueViolation } from '../store/sqlite-error.ts'
import type { SqlValue } from '../store/statement.ts'
import type { Worker } from './task-rows.ts'

/** A request for a job. */
export type CreateJob = z.output<typeof createJobSchema>
/** What its row keeps of a request: everything but the inputs, which the tasks have. */
export type JobRequest = Omit<CreateJob, 'inputs' | 'idempotencyKey'> & {
  /** The id of the sandbox that the job was forked from. */
  readonly sandboxId?: SandboxId
}

export interface JobRow {
  readonly id: JobId
  readonly owner: string
  readonly state: 'starting' | 'running' | 'cancelling' | 'finished' | 'cancelled'
  readonly request: JobRequest
  readonly snapshotId: SnapshotId | undefined
  readonly ownsSnapshot: boolean
  readonly total: number
  readonly succeeded: number
  readonly failed: number
  readonly cancelled: number
  readonly lastSeq: number
  readonly bytes: number
  readonly createdAt: number
  readonly startedAt: number | undefined
  readonly finishedAt: number | undefined
  readonly requestHash: string | undefined
  /** The host that has added it. */
  readonly by: Worker
}

/** The rows of a job in all tables. */
export interface WholeJob {
  readonly jobs: readonly Stored[]
  readonly job_tasks: readonly Stored[]
  readonly job_results: readonly Stored[]
}

type Stored = Readonly<Record<string, SqlValue>>

interface StoredRow {
  id: JobId
  owner: string
  state: JobRow['state']
  request: string
  snapshot_id: SnapshotId | null
  owns_snapshot: number
  total: number
  succeeded: number
  failed: number
  cancelled: number
  last_seq: number
  bytes: number
  created_at: number
  started_at: number | null
  finished_at: number | null
  request_hash: string | null
  host: string
  epoch: number
}

export interface NewJob {
  readonly id: JobId
  readonly owner: string
  readonly request: JobRequest
  readonly inputs: readonly string[]
  readonly createdAt: number
  readonly idempotencyKey: string | undefined
  readonly requestHash: string | undefined
}

/** The table `jobs`. */
export class JobRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Adds a job that is starting, with its tasks. Returns false if the owner has used the key before. */
  add(
    { id, owner, request, inputs, createdAt, idempotencyKey, requestHash }: NewJob,
    { host, epoch }: Worker,
  ): boolean {
    const job = this.#db.prepare<(string | number | null)[]>(
      `INSERT INTO jobs (id, owner, name, state, request, priority, total, created_at, idempotency_key, request_hash,
         host, epoch)
       VALUES (?, ?, ?, 'starting', ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    const task = this.#db.prepare<[string, number, string]>(
      "INSERT INTO job_tasks (job_id, idx, state, input) VALUES (?, ?, 'queued', ?)",
    )
    const { name, priority } = request
    const text = JSON.stringify(request)
    const key = [idempotencyKey ?? null, requestHash ?? null]
    try {
      this.#db.transaction(() => {
        job.run(id, owner, name ?? null, text, priority, inputs.length, createdAt, ...key, host, epoch)
        inputs.forEach((input, index) => {
          task.run(id, index, input)
        })
      })
      return true
    } catch (error) {
      if (isUniqueViolation(error)) return false
      throw error
    }
  }

  /** Its tasks may start from now on. */
  start(id: JobId, snapshot: { id: SnapshotId; isOwn: boolean } | undefined): boolean {
    return (
      this.#db
        .prepare<[string | null, number, string]>(
          "UPDATE jobs SET state = 'running', snapshot_id = ?, owns_snapshot = ? WHERE id = ? AND state = 'starting'",
        )
        .run(snapshot?.id ?? null, snapshot?.isOwn === true ? 1 : 0, id).changes > 0
    )
  }

  /** Tasks that wait are cancelled with it. Those that run record their own end. */
  cancel(id: JobId, now: number): boolean {
    return this.#db.transaction(() => {
      const { changes } = this.#db
        .prepare<[string]>("UPDATE jobs SET state = 'cancelling' WHERE id = ? AND state = 'running'")
        .run(id)
      if (changes === 0) return false
      const waiting = this.#db
        .prepare<[string], { idx: number }>("SELECT idx FROM job_tasks WHERE job_id = ? AND state = 'queued'")
        .all(id)
      const end = this.#db.prepare<[number, number, string, number]>(
        "UPDATE job_tasks SET state = 'cancelled', reason = 'cancelled', finished_at = ?, seq = ? WHERE job_id = ? AND idx = ?",
      )
      let seq = this.get(id)?.lastSeq ?? 0
      for (const { idx } of waiting) {
        seq += 1
        end.run(now, seq, id, idx)
      }
      this.#db
        .prepare<[number, number, string]>(
          'UPDATE jobs SET cancelled = cancelled + ?, last_seq = ? WHERE id = ?',
        )
        .run(waiting.length, seq, id)
      return true
    })
  }

  /** Its inputs are not needed any more. */
  end(id: JobId, now: number): boolean {
    return this.#db.transaction(() => {
      const { changes } = this.#db
        .prepare<[number, string]>(
          `UPDATE jobs SET state = CASE state WHEN 'cancelling' THEN 'cancelled' ELSE 'finished' END, finished_at = ?
           WHERE id = ? AND state IN ('running', 'cancelling') AND succeeded + failed + cancelled >= total`,
        )
        .run(now, id)
      if (changes === 0) return false
      this.#db.prepare<[string]>("UPDATE job_tasks SET input = 'null' WHERE job_id = ?").run(id)
      return true
    })
  }

  get(id: string): JobRow | undefined {
    const row = this.#db.prepare<[string], StoredRow>('SELECT * FROM jobs WHERE id = ?').get(id)
    return row === undefined ? undefined : toRow(row)
  }

  byKey(owner: string, key: string): JobRow | undefined {
    const row = this.#db
      .prepare<[string, string], StoredRow>('SELECT * FROM jobs WHERE owner = ? AND idempotency_key = ?')
      .get(owner, key)
    return row === undefined ? undefined : toRow(row)
  }

  /** Newest first. Without `owner`: of all owners. */
  list(query: { limit: number; cursor?: string }, owner: string | undefined): Page<JobRow> {
    const where = ["state <> 'starting'"]
    const page = newestPage<StoredRow>(this.#db, { table: 'jobs', matching: { owner }, where }, query)
    return { ...page, items: page.items.map(toRow) }
  }

  ids(): JobId[] {
    return this.#db
      .prepare<[], { id: JobId }>('SELECT id FROM jobs')
      .all()
      .map(({ id }) => id)
  }

  /** Jobs that have not ended. */
  live(): JobRow[] {
    return this.#db
      .prepare<[], StoredRow>("SELECT * FROM jobs WHERE state IN ('starting', 'running', 'cancelling')")
      .all()
      .map(toRow)
  }

  delete(id: JobId): boolean {
    return this.#db.transaction(
      () => this.#db.prepare<[string]>('DELETE FROM jobs WHERE id = ?').run(id).changes > 0,
    )
  }

  /** All of a job, for a cluster that its host joins. `by` is the lease under which the host continues with it. */
  export(id: JobId, { host, epoch }: Worker): WholeJob {
    const all = (table: string, key: string) =>
      this.#db.prepare<[string], Stored>(`SELECT * FROM ${table} WHERE ${key} = ?`).all(id)
    const here = (rows: Stored[]) => rows.map((row) => ({ ...row, host, epoch }))
    return {
      jobs: here(all('jobs', 'id')),
      job_tasks: here(all('job_tasks', 'job_id')),
      job_results: all('job_results', 'job_id'),
    }
  }

  /** Replaces what these tables have of the job. False if its owner has used its idempotency key for another one. */
  import(whole: WholeJob): boolean {
    try {
      this.#db.transaction(() => {
        for (const { id } of whole.jobs)
          this.#db.prepare<SqlValue[]>('DELETE FROM jobs WHERE id = ?').run(id ?? null)
        for (const table of ['jobs', 'job_tasks', 'job_results'] as const)
          for (const row of whole[table]) this.#insert(table, row)
      })
      return true
    } catch (error) {
      if (isUniqueViolation(error)) return false
      throw error
    }
  }

  /** Columns that a newer version has added are left out. */
  #insert(table: string, row: Stored): void {
    const known = this.#db
      .prepare<[], { name: string }>(`SELECT name FROM pragma_table_info('${table}')`)
      .all()
      .flatMap(({ name }) => (row[name] === undefined ? [] : name))
    this.#db
      .prepare<SqlValue[]>(
        `INSERT INTO ${table} (${known.join(', ')}) VALUES (${known.map(() => '?').join(', ')})`,
      )
      .run(...known.map((name) => row[name] ?? null))
  }

  /** Ended jobs, oldest first. */
  ended(): Pick<JobRow, 'id' | 'finishedAt' | 'bytes'>[] {
    return this.#db
      .prepare<[], { id: JobId; finished_at: number; bytes: number }>(
        "SELECT id, finished_at, bytes FROM jobs WHERE state IN ('finished', 'cancelled') ORDER BY finished_at",
      )
      .all()
      .map(({ id, finished_at: finishedAt, bytes }) => ({ id, finishedAt, bytes }))
  }

  totalBytes(): number {
    return (
      this.#db.prepare<[], { bytes: number | null }>('SELECT sum(bytes) AS bytes FROM jobs').get()?.bytes ?? 0
    )
  }
}

function toRow(row: StoredRow): JobRow {
  const { id, owner, state, total, succeeded, failed, cancelled, bytes } = row
  return {
    ...{ id, owner, state, total, succeeded, failed, cancelled, bytes },
    request: JSON.parse(row.request) as JobRequest,
    snapshotId: row.snapshot_id ?? undefined,
    ownsSnapshot: row.owns_snapshot === 1,
    lastSeq: row.last_seq,
    createdAt: row.created_at,
    startedAt: row.started_at ?? undefined,
    finishedAt: row.finished_at ?? undefined,
    requestHash: row.request_hash ?? undefined,
    by: { host: row.host, epoch: row.epoch },
  }
}
