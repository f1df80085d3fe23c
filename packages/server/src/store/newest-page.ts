import { cursorOf, positionOf } from './cursor.ts'
import type { Database } from './database.ts'
import type { Page } from './page.ts'
import type { SqlValue } from './statement.ts'

type Table =
  | 'sandboxes'
  | 'snapshots'
  | 'volumes'
  | 'edge_secrets'
  | 'ssh_keys'
  | 'services'
  | 'jobs'
  | 'schedules'
  | 'webhooks'

export interface PageOf {
  readonly table: Table
  /** Columns and their required values; undefined: any value. */
  readonly matching: Readonly<Record<string, string | undefined>>
  /** Further conditions, and the values for their question marks. */
  readonly where?: readonly string[]
  readonly values?: readonly SqlValue[]
}

/**
 * A page of rows, newest first. Rows of the same time are ordered by id, so that no row is missed between two pages.
 */
export function newestPage<Row extends { id: string; created_at: number }>(
  db: Database,
  { table, matching, where = [], values = [] }: PageOf,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Page<Row> {
  const wanted = Object.entries(matching).filter(([, value]) => value !== undefined)
  const conditions = [...where, ...wanted.map(([column]) => `${column} = ?`)]
  const given: SqlValue[] = [...values, ...wanted.map(([, value]) => value as string)]
  if (cursor !== undefined) {
    conditions.push('(created_at, id) < (?, ?)')
    given.push(...positionOf(cursor))
  }
  const filter = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
  const rows = db
    .prepare<SqlValue[], Row>(`SELECT * FROM ${table} ${filter} ORDER BY created_at DESC, id DESC LIMIT ?`)
    .all(...given, limit + 1)
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const hasMore = rows.length > limit && last !== undefined
  return { items, nextCursor: hasMore ? cursorOf(last.created_at, last.id) : undefined }
}
