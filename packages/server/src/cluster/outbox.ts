import type { Database } from '../store/database.ts'
import type { SqlValue } from '../store/statement.ts'

/** A table whose rows all hosts have. */
export interface SharedTable {
  readonly db: Database
  readonly table: string
  /** Columns that identify a row on every host. */
  readonly key: readonly string[]
  /** Rows that are shared, as an SQL condition. `row` comes before the names of columns. */
  readonly where?: (row: 'NEW.' | 'OLD.' | '') => string
  /** Columns that are encrypted with a key of this host, for the `id` of the row. */
  readonly sealed?: readonly string[]
  /** Another host has changed or removed a row. `row` is the row before, if there was one. */
  readonly onChange?: (change: { readonly before: Row | undefined; readonly isRemoved: boolean }) => void
}

export type Row = Readonly<Record<string, SqlValue>>

export interface Waiting {
  readonly seq: number
  readonly tbl: string
  readonly key: string
}

/**
 * Rows of shared tables that the other hosts do not have yet. Triggers add to it in the transaction that changes the
 * row, so a crash loses nothing. They are temporary: a server outside a cluster has none.
 */
export class Outbox {
  readonly #db: Database
  readonly #tables = new Map<string, SharedTable & { readonly columns: readonly string[] }>()
  readonly #next
  readonly #isWaiting
  readonly #done

  constructor(db: Database, tables: readonly SharedTable[]) {
    this.#db = db
    db.exec(`CREATE TABLE IF NOT EXISTS cluster_outbox (
      -- A row that changes again while it is sent gets a new number.
      seq INTEGER PRIMARY KEY AUTOINCREMENT, tbl TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (tbl, key)
    ) STRICT`)
    for (const table of tables) this.#add(table)
    this.#next = db.prepare<[number], Waiting>(
      'SELECT seq, tbl, key FROM cluster_outbox ORDER BY seq LIMIT ?',
    )
    this.#isWaiting = db.prepare<[string, string], { seq: number }>(
      'SELECT seq FROM cluster_outbox WHERE tbl = ? AND key = ?',
    )
    this.#done = db.prepare<[number]>('DELETE FROM cluster_outbox WHERE seq = ?')
  }

  has(table: string): boolean {
    return this.#tables.has(table)
  }

  /** Oldest first. */
  next(limit: number): Waiting[] {
    return this.#next.all(limit)
  }

  /** It was sent. A change meanwhile has another number. */
  done({ seq }: Waiting): void {
    this.#done.run(seq)
  }

  /** Keys of all shared rows. */
  keys(table: string): string[] {
    const { where = always, key } = this.#get(table)
    return this.#db
      .prepare<[], { key: string }>(`SELECT ${keyOf(key)} AS key FROM ${table} WHERE ${where('')}`)
      .all()
      .map((row) => row.key)
  }

  /** Sends the row, or its removal, once more. */
  enqueue(table: string, key: string): void {
    this.#db
      .prepare<[string, string]>('INSERT OR IGNORE INTO cluster_outbox (tbl, key) VALUES (?, ?)')
      .run(table, key)
  }

  /** Undefined when the row is gone, or is not shared. */
  read(table: string, key: string): Row | undefined {
    const { where = always } = this.#get(table)
    return this.#db
      .prepare<SqlValue[], Row>(`SELECT * FROM ${table} WHERE ${this.#matches(table)} AND (${where('')})`)
      .get(...(JSON.parse(key) as SqlValue[]))
  }

  /** Takes over what another host has written; undefined: it has removed the row. A change here that waits wins. */
  accept(table: string, key: string, row: Row | undefined): void {
    const shared = this.#get(table)
    const outcome = this.#db.transaction(() => {
      if (this.#isWaiting.get(table, key) !== undefined) return undefined
      const before = this.read(table, key)
      if (row === undefined) this.#remove(table, key)
      else this.#write(shared, key, row)
      // The triggers have seen this change, too.
      const mine = this.#isWaiting.get(table, key)
      if (mine !== undefined) this.#done.run(mine.seq)
      return { before }
    })
    if (outcome !== undefined) shared.onChange?.({ before: outcome.before, isRemoved: row === undefined })
  }

  #remove(table: string, key: string): void {
    const { where = always } = this.#get(table)
    this.#db
      .prepare<SqlValue[]>(`DELETE FROM ${table} WHERE ${this.#matches(table)} AND (${where('')})`)
      .run(...(JSON.parse(key) as SqlValue[]))
  }

  /** Columns that a newer version has added are left out. */
  #write(
    { table, key: keys, columns }: SharedTable & { columns: readonly string[] },
    key: string,
    row: Row,
  ): void {
    const known = columns.filter((column) => row[column] !== undefined)
    // Two hosts may have made a row of the same name at once.
    if (columns.includes('id') && !keys.includes('id'))
      this.#db
        .prepare<SqlValue[]>(`DELETE FROM ${table} WHERE ${this.#matches(table)} AND id <> ?`)
        .run(...(JSON.parse(key) as SqlValue[]), row['id'] ?? null)
    const values = known.map((column) => row[column] ?? null)
    const changes = known.map((column) => `${column} = excluded.${column}`).join(', ')
    this.#db
      .prepare<SqlValue[]>(
        `INSERT INTO ${table} (${known.join(', ')}) VALUES (${known.map(() => '?').join(', ')})
         ON CONFLICT (${keys.join(', ')}) DO UPDATE SET ${changes}`,
      )
      .run(...values)
  }

  #add(shared: SharedTable): void {
    const { table, key, where = always } = shared
    const columns = this.#db
      .prepare<[], { name: string }>(`SELECT name FROM pragma_table_info('${table}')`)
      .all()
      .map(({ name }) => name)
    this.#tables.set(table, { ...shared, columns })
    const note = (row: 'NEW' | 'OLD') => {
      const value = keyOf(key.map((column) => `${row}.${column}`))
      return `DELETE FROM cluster_outbox WHERE tbl = '${table}' AND key = ${value};
        INSERT INTO cluster_outbox (tbl, key) VALUES ('${table}', ${value});`
    }
    this.#db.exec(`
      CREATE TEMP TRIGGER share_${table}_insert AFTER INSERT ON ${table} WHEN ${where('NEW.')} BEGIN ${note('NEW')} END;
      CREATE TEMP TRIGGER share_${table}_update AFTER UPDATE ON ${table} WHEN ${where('NEW.')} BEGIN ${note('NEW')} END;
      CREATE TEMP TRIGGER share_${table}_delete AFTER DELETE ON ${table} WHEN ${where('OLD.')} BEGIN ${note('OLD')} END;
    `)
  }

  #get(table: string): SharedTable & { columns: readonly string[] } {
    const found = this.#tables.get(table)
    if (found === undefined) throw new Error(`${table} is not shared`)
    return found
  }

  #matches(table: string): string {
    return this.#get(table)
      .key.map((column) => `${shown(column)} = ?`)
      .join(' AND ')
  }
}

const always = () => 'true'

/** JSON holds no bytes. */
const BYTES = new Set(['token_sha256'])

function shown(column: string): string {
  return BYTES.has(column.split('.').at(-1) ?? '') ? `hex(${column})` : column
}

function keyOf(columns: readonly string[]): string {
  return `json_array(${columns.map(shown).join(', ')})`
}
