import { DormouseError } from '@dormouse/contracts'
import type { createScheduleSchema, FiringAnswer, ScheduleAnswer } from '@dormouse/contracts/http'
import type { z } from 'zod'
import type { Database } from '../store/database.ts'
import { newestPage } from '../store/newest-page.ts'
import type { Page } from '../store/page.ts'
import { isUniqueViolation } from '../store/sqlite-error.ts'
import type { SqlValue } from '../store/statement.ts'
import type { Due } from './cron-times.ts'

export type CreateSchedule = z.output<typeof createScheduleSchema>
export type ScheduleAction = CreateSchedule['action']

export interface ScheduleRow {
  readonly id: string
  readonly owner: string
  readonly name: string
  readonly cron: string
  readonly timezone: string
  readonly missed: 'skip' | 'once'
  readonly enabled: boolean
  readonly action: ScheduleAction
  readonly createdAt: number
  readonly nextAt: number | undefined
  /** Times up to this one have fired or were skipped. */
  readonly settledAt: number
}

/** One time of a schedule that fired. */
export interface Firing {
  readonly scheduleId: string
  readonly at: number
  /** `sent`: a request may have reached its port. */
  readonly state: 'pending' | 'sent' | 'done' | 'failed'
}

export type FiringOutcome = Pick<FiringAnswer, 'jobId' | 'sandboxId' | 'runId' | 'status' | 'error'>

interface StoredRow {
  id: string
  owner: string
  name: string
  cron: string
  timezone: string
  missed: 'skip' | 'once'
  enabled: number
  action: string
  created_at: number
  next_at: number | null
  settled_at: number
}

interface StoredFiring {
  schedule_id: string
  at: number
  state: Firing['state']
  outcome: string | null
  finished_at: number | null
}

/** Firings of a schedule that are kept. */
const FIRINGS_KEPT = 100

/** The tables `schedules` and `schedule_firings`. */
export class ScheduleRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  add(row: ScheduleRow): void {
    try {
      this.#db
        .prepare<SqlValue[]>(
          `INSERT INTO schedules (id, owner, name, cron, timezone, missed, enabled, action, created_at, next_at,
           settled_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(
          row.id,
          row.owner,
          row.name,
          ...this.#fields(row),
          row.createdAt,
          row.nextAt ?? null,
          row.settledAt,
        )
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new DormouseError('name_taken', `There is already a schedule named "${row.name}".`, {
        hint: 'Choose another name, or change that one.',
      })
    }
  }

  put(row: ScheduleRow): void {
    this.#db
      .prepare<SqlValue[]>(
        `UPDATE schedules SET cron = ?, timezone = ?, missed = ?, enabled = ?, action = ?, next_at = ?, settled_at = ?
         WHERE id = ?`,
      )
      .run(...this.#fields(row), row.nextAt ?? null, row.settledAt, row.id)
  }

  #fields({ cron, timezone, missed, enabled, action }: ScheduleRow): SqlValue[] {
    return [cron, timezone, missed, enabled ? 1 : 0, JSON.stringify(action)]
  }

  /**
   * Settles the times that have come, and records the one that fires, in one transaction. Undefined if it has fired
   * before, or nothing fires.
   */
  fire(id: string, { fireAt, settledAt, nextAt }: Due): Firing | undefined {
    return this.#db.transaction(() => {
      this.#db
        .prepare<[number | null, number, string]>(
          'UPDATE schedules SET next_at = ?, settled_at = ? WHERE id = ?',
        )
        .run(nextAt ?? null, settledAt, id)
      return fireAt === undefined ? undefined : this.addFiring(id, fireAt)
    })
  }

  addFiring(scheduleId: string, at: number): Firing | undefined {
    const { changes } = this.#db
      .prepare<[string, number]>(
        "INSERT OR IGNORE INTO schedule_firings (schedule_id, at, state) VALUES (?, ?, 'pending')",
      )
      .run(scheduleId, at)
    return changes === 1 ? { scheduleId, at, state: 'pending' } : undefined
  }

  markSent({ scheduleId, at }: Firing): void {
    this.#db
      .prepare<[string, number]>(
        "UPDATE schedule_firings SET state = 'sent' WHERE schedule_id = ? AND at = ?",
      )
      .run(scheduleId, at)
  }

  finish({ scheduleId, at }: Firing, state: 'done' | 'failed', outcome: FiringOutcome, now: number): void {
    this.#db.transaction(() => {
      this.#db
        .prepare<[string, string, number, string, number]>(
          'UPDATE schedule_firings SET state = ?, outcome = ?, finished_at = ? WHERE schedule_id = ? AND at = ?',
        )
        .run(state, JSON.stringify(outcome), now, scheduleId, at)
      this.#db
        .prepare<[string, string, number]>(
          `DELETE FROM schedule_firings WHERE schedule_id = ? AND state IN ('done', 'failed') AND at <=
           (SELECT at FROM schedule_firings WHERE schedule_id = ? ORDER BY at DESC LIMIT 1 OFFSET ?)`,
        )
        .run(scheduleId, scheduleId, FIRINGS_KEPT)
    })
  }

  /** Firings that have not come to their end. */
  open(): Firing[] {
    return this.#db
      .prepare<[], StoredFiring>(
        "SELECT * FROM schedule_firings WHERE state IN ('pending', 'sent') ORDER BY at",
      )
      .all()
      .map(({ schedule_id: scheduleId, at, state }) => ({ scheduleId, at, state }))
  }

  firings(id: string, limit: number): FiringAnswer[] {
    return this.#db
      .prepare<[string, number], StoredFiring>(
        'SELECT * FROM schedule_firings WHERE schedule_id = ? ORDER BY at DESC LIMIT ?',
      )
      .all(id, limit)
      .map(toFiring)
  }

  get(id: string): ScheduleRow | undefined {
    const row = this.#db.prepare<[string], StoredRow>('SELECT * FROM schedules WHERE id = ?').get(id)
    return row && toRow(row)
  }

  named(owner: string, name: string): ScheduleRow | undefined {
    const row = this.#db
      .prepare<[string, string], StoredRow>('SELECT * FROM schedules WHERE owner = ? AND name = ?')
      .get(owner, name)
    return row && toRow(row)
  }

  list(query: { limit: number; cursor?: string }, owner: string): Page<ScheduleRow> {
    const page = newestPage<StoredRow>(this.#db, { table: 'schedules', matching: { owner } }, query)
    return { ...page, items: page.items.map(toRow) }
  }

  count(owner: string): number {
    const sql = 'SELECT count(*) AS count FROM schedules WHERE owner = ?'
    return this.#db.prepare<[string], { count: number }>(sql).get(owner)?.count ?? 0
  }

  /** Schedules that are on, the next one first. */
  enabled(): ScheduleRow[] {
    return this.#db
      .prepare<[], StoredRow>('SELECT * FROM schedules WHERE next_at IS NOT NULL ORDER BY next_at')
      .all()
      .map(toRow)
  }

  delete(id: string): void {
    this.#db.prepare<[string]>('DELETE FROM schedules WHERE id = ?').run(id)
  }
}

function toRow({
  created_at: createdAt,
  next_at: nextAt,
  settled_at: settledAt,
  ...row
}: StoredRow): ScheduleRow {
  const action = JSON.parse(row.action) as ScheduleAction
  return { ...row, enabled: row.enabled === 1, action, createdAt, nextAt: nextAt ?? undefined, settledAt }
}

function toFiring({ at, state, outcome, finished_at: finishedAt }: StoredFiring): FiringAnswer {
  return {
    at: new Date(at).toISOString(),
    state: state === 'sent' ? 'pending' : state,
    ...(outcome === null ? {} : (JSON.parse(outcome) as FiringOutcome)),
    finishedAt: finishedAt === null ? undefined : new Date(finishedAt).toISOString(),
  }
}

export function scheduleView(row: ScheduleRow, last: FiringAnswer | undefined): ScheduleAnswer {
  const { name, cron, timezone, missed, enabled, action, createdAt, nextAt } = row
  return {
    ...{ name, cron, timezone, missed, enabled, action: { ...action } },
    createdAt: new Date(createdAt).toISOString(),
    nextAt: nextAt === undefined ? undefined : new Date(nextAt).toISOString(),
    last,
  }
}
