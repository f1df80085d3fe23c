import type { DatabaseSyncInstance } from '@photostructure/sqlite'
import { toCodedError } from './sqlite-error.ts'

export type SqlValue = string | number | bigint | Uint8Array | null
/** `[string, number]` for `?`, `{ id: string }` for `$id`. */
export type SqlParams = readonly SqlValue[] | Readonly<Record<string, SqlValue>>
type Given<Params> = Params extends readonly SqlValue[] ? Params : [params: Params]

export interface RunOutcome {
  readonly changes: number
  readonly lastInsertRowid: number | bigint
}

/**
 * A prepared statement. The caller declares its types; SQLite does not check them. Booleans are 0 and 1, absent values
 * are null, times are milliseconds since the epoch.
 */
export interface Statement<Params, Row> {
  get(...params: Given<Params>): Row | undefined
  all(...params: Given<Params>): Row[]
  run(...params: Given<Params>): RunOutcome
  /**
   * Do not write to the same table before the last row, and do not use the same SQL before that. Use `all` for few
   * rows.
   */
  iterate(...params: Given<Params>): IterableIterator<Row>
}

export function prepareStatement<Params, Row>(
  connection: DatabaseSyncInstance,
  sql: string,
  { databaseName, beforeRun }: { readonly databaseName: string; readonly beforeRun: () => void },
): Statement<Params, Row> {
  const guard = <Value>(work: () => Value): Value => {
    try {
      return work()
    } catch (error) {
      throw toCodedError(error, databaseName)
    }
  }
  const statement = guard(() => connection.prepare(sql))
  return {
    get: (...params) => guard(() => statement.get(...params)) as Row | undefined,
    all: (...params) => guard(() => statement.all(...params)) as Row[],
    run: (...params) => {
      beforeRun()
      return guard(() => statement.run(...params))
    },
    iterate: (...params) => guard(() => statement.iterate(...params)) as IterableIterator<Row>,
  }
}
