import type { JobId, SandboxId } from '@dormouse/contracts'
import type { TaskAnswer, TaskResultAnswer } from '@dormouse/contracts/http'
import type { Database } from '../store/database.ts'
import type { SqlValue } from '../store/statement.ts'

export interface TaskRow {
  readonly jobId: JobId
  readonly index: number
  readonly state: TaskAnswer['state']
  /** JSON. */
  readonly input: string
  readonly attempts: number
  readonly failures: number
  readonly losses: number
  readonly refusals: number
  readonly sandboxId: SandboxId | undefined
}

/** A host of a cluster by its lease. Outside a cluster: NO_WORKER. */
export interface Worker {
  readonly host: string
  readonly epoch: number
}

export const NO_WORKER: Worker = { host: '', epoch: 0 }

/** The attempt that runs now. */
export interface Attempt extends TaskRow {
  readonly sandboxId: SandboxId
}

/** What identifies an attempt. */
export type AttemptRef = Pick<Attempt, 'jobId' | 'index' | 'attempts'>

/** How an attempt ended, for good. */
export interface TaskEnd {
  readonly state: 'succeeded' | 'failed' | 'cancelled'
  readonly reason?: TaskAnswer['reason']
  readonly message?: string
  readonly result?: TaskResultAnswer
}

/** An attempt that is not the last one. */
export interface Requeue {
  readonly why: 'failures' | 'losses' | 'refusals'
  readonly dueAt: number
  readonly reason: NonNullable<TaskAnswer['reason']>
  readonly message: string
}

interface StoredRow {
  job_id: JobId
  idx: number
  state: TaskRow['state']
  input: string
  attempts: number
  failures: number
  losses: number
  refusals: number
  sandbox_id: SandboxId | null
  started_at: number | null
  finished_at: number | null
  seq: number | null
  reason: TaskAnswer['reason'] | null
  message: string | null
  result?: string | null
}

/** The tables `job_tasks`, `job_results` and `job_sandboxes`. */
export class TaskRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** The task that comes next, if one is due. */
  next(jobId: JobId, now: number): TaskRow | undefined {
    const row = this.#db
      .prepare<[string, number], StoredRow>(
        `SELECT * FROM job_tasks WHERE job_id = ? AND state = 'queued' AND due_at <= ? ORDER BY due_at, idx LIMIT 1`,
      )
      .get(jobId, now)
    return row && toRow(row)
  }

  /** When the next task of the job is due. */
  nextDueAt(jobId: JobId): number | undefined {
    return (
      this.#db
        .prepare<[string], { due: number | null }>(
          "SELECT min(due_at) AS due FROM job_tasks WHERE job_id = ? AND state = 'queued'",
        )
        .get(jobId)?.due ?? undefined
    )
  }

  /**
   * Begins an attempt. Does not wait for the disk: after a power cut the sandbox is gone, and so is the attempt.
   */
  claim(
    { jobId, index, ...task }: TaskRow,
    { sandboxId, now, by, isHere }: { sandboxId: SandboxId; now: number; by: Worker; isHere: boolean },
  ): Attempt {
    const attempts = task.attempts + 1
    this.#db.transactionWithoutSync(() => {
      this.#db
        .prepare<[number, string, number, string, number, string, number]>(
          `UPDATE job_tasks SET state = 'running', attempts = ?, sandbox_id = ?, started_at = ?, host = ?, epoch = ?,
           reason = NULL, message = NULL WHERE job_id = ? AND idx = ? AND state = 'queued'`,
        )
        .run(attempts, sandboxId, now, by.host, by.epoch, jobId, index)
      if (isHere)
        this.#db
          .prepare<[string, string]>('INSERT OR IGNORE INTO job_sandboxes (sandbox_id, job_id) VALUES (?, ?)')
          .run(sandboxId, jobId)
      this.#db
        .prepare<[number, string]>('UPDATE jobs SET started_at = coalesce(started_at, ?) WHERE id = ?')
        .run(now, jobId)
    })
    return { jobId, index, ...task, state: 'running', attempts, sandboxId }
  }

  /**
   * Records the end of a task, once: false if another attempt is the current one or the task has ended. Does not wait
   * for the disk; call `sync` before a reader sees the outcome.
   */
  end({ jobId, index, attempts }: AttemptRef, end: TaskEnd, now: number): boolean {
    const result = end.result === undefined ? undefined : JSON.stringify(end.result)
    const bytes = result === undefined ? 0 : Buffer.byteLength(result)
    return this.#db.transactionWithoutSync(() => {
      const { changes } = this.#db
        .prepare<SqlValue[]>(
          `UPDATE job_tasks SET state = ?, reason = ?, message = ?, finished_at = ?, sandbox_id = NULL,
           seq = (SELECT last_seq + 1 FROM jobs WHERE id = ?)
           WHERE job_id = ? AND idx = ? AND attempts = ? AND state = 'running'`,
        )
        .run(end.state, end.reason ?? null, end.message ?? null, now, jobId, jobId, index, attempts)
      if (changes !== 1) return false
      this.#db
        .prepare<[number, string]>(
          `UPDATE jobs SET last_seq = last_seq + 1, ${end.state} = ${end.state} + 1, bytes = bytes + ? WHERE id = ?`,
        )
        .run(bytes, jobId)
      if (result !== undefined)
        this.#db
          .prepare<[string, number, string]>('INSERT INTO job_results (job_id, idx, result) VALUES (?, ?, ?)')
          .run(jobId, index, result)
      return true
    })
  }

  /** Puts a task back into the queue. The same condition as for its end. */
  requeue({ jobId, index, attempts }: AttemptRef, { why, dueAt, reason, message }: Requeue): boolean {
    return this.#db.transactionWithoutSync(
      () =>
        this.#db
          .prepare<SqlValue[]>(
            `UPDATE job_tasks SET state = 'queued', ${why} = ${why} + 1, due_at = ?, reason = ?, message = ?,
             sandbox_id = NULL WHERE job_id = ? AND idx = ? AND attempts = ? AND state = 'running'`,
          )
          .run(dueAt, reason, message, jobId, index, attempts).changes === 1,
    )
  }

  sync(): Promise<void> {
    return this.#db.sync()
  }

  /** Tasks of a job that run on a host, under one of its leases. */
  running(jobId: JobId, { host, epoch }: Worker): TaskRow[] {
    return this.#db
      .prepare<[string, string, number], StoredRow>(
        "SELECT * FROM job_tasks WHERE job_id = ? AND state = 'running' AND host = ? AND epoch = ? ORDER BY idx",
      )
      .all(jobId, host, epoch)
      .map(toRow)
  }

  countRunning(jobId: JobId): number {
    return (
      this.#db
        .prepare<[string], { count: number }>(
          "SELECT count(*) AS count FROM job_tasks WHERE job_id = ? AND state = 'running'",
        )
        .get(jobId)?.count ?? 0
    )
  }

  /** The attempt is the one that runs now. */
  isCurrent({ jobId, index, attempts }: AttemptRef, host: string): boolean {
    return (
      this.#db
        .prepare<SqlValue[], { idx: number }>(
          `SELECT idx FROM job_tasks WHERE job_id = ? AND idx = ? AND attempts = ? AND host = ? AND state = 'running'`,
        )
        .get(jobId, index, attempts, host) !== undefined
    )
  }

  /** Which hosts run tasks of which jobs, under which lease, and how many. Jobs that start count as one. */
  workers(): (Worker & { jobId: JobId; count: number })[] {
    return this.#db
      .prepare<[], Worker & { jobId: JobId; count: number }>(
        `SELECT job_id AS jobId, host, epoch, count(*) AS count FROM job_tasks WHERE state = 'running'
         GROUP BY job_id, host, epoch
         UNION ALL SELECT id, host, epoch, 1 FROM jobs WHERE state = 'starting'`,
      )
      .all()
  }

  /** A host continues with its attempts under a new lease. */
  renew(jobId: JobId, { host, epoch }: Worker, newEpoch: number): boolean {
    return (
      this.#db
        .prepare<SqlValue[]>(
          "UPDATE job_tasks SET epoch = ? WHERE job_id = ? AND host = ? AND epoch = ? AND state = 'running'",
        )
        .run(newEpoch, jobId, host, epoch).changes > 0
    )
  }

  get(jobId: JobId, index: number): TaskAnswer | undefined {
    const row = this.#db
      .prepare<[string, number], StoredRow>(
        `SELECT t.*, r.result FROM job_tasks AS t LEFT JOIN job_results AS r USING (job_id, idx)
         WHERE job_id = ? AND idx = ?`,
      )
      .get(jobId, index)
    return row && toView(row)
  }

  list(
    jobId: JobId,
    { state, after, limit, results }: { state?: string; after: number; limit: number; results: boolean },
  ): TaskAnswer[] {
    return this.#db
      .prepare<SqlValue[], StoredRow>(
        `${select(results)} WHERE job_id = ? AND idx > ? ${state === undefined ? '' : 'AND state = ?'}
         ORDER BY idx LIMIT ?`,
      )
      .all(jobId, after, ...(state === undefined ? [] : [state]), limit)
      .map(toView)
  }

  /** Ended tasks in the order in which they ended. */
  ended(
    jobId: JobId,
    { after, limit, results }: { after: number; limit: number; results: boolean },
  ): { seq: number; task: TaskAnswer }[] {
    return this.#db
      .prepare<[string, number, number], StoredRow>(
        `${select(results)} WHERE job_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
      )
      .all(jobId, after, limit)
      .map((row) => ({ seq: row.seq ?? 0, task: toView(row) }))
  }

  sandboxes(): { sandboxId: SandboxId; jobId: JobId }[] {
    return this.#db
      .prepare<[], { sandboxId: SandboxId; jobId: JobId }>(
        'SELECT sandbox_id AS sandboxId, job_id AS jobId FROM job_sandboxes',
      )
      .all()
  }

  /** The sandbox is gone. */
  forgetSandbox(id: SandboxId): void {
    this.#db.transactionWithoutSync(() => {
      this.#db.prepare<[string]>('DELETE FROM job_sandboxes WHERE sandbox_id = ?').run(id)
    })
  }
}

function select(withResults: boolean): string {
  return withResults
    ? 'SELECT t.*, r.result FROM job_tasks AS t LEFT JOIN job_results AS r USING (job_id, idx)'
    : 'SELECT * FROM job_tasks'
}

function toRow({ job_id: jobId, idx: index, ...row }: StoredRow): TaskRow {
  const { state, input, attempts, failures, losses, refusals } = row
  const counts = { attempts, failures, losses, refusals }
  return { jobId, index, state, input, ...counts, sandboxId: row.sandbox_id ?? undefined }
}

function toView(row: StoredRow): TaskAnswer {
  return {
    index: row.idx,
    state: row.state,
    attempts: row.attempts,
    reason: row.reason ?? undefined,
    message: row.message ?? undefined,
    startedAt: iso(row.started_at),
    finishedAt: iso(row.finished_at),
    sandboxId: row.sandbox_id ?? undefined,
    result: row.result == null ? undefined : (JSON.parse(row.result) as TaskResultAnswer),
  }
}

function iso(ms: number | null): string | undefined {
  return ms === null ? undefined : new Date(ms).toISOString()
}
