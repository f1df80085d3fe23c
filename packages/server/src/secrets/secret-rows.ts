import { DormouseError } from '@dormouse/contracts'
import type { Database } from '../store/database.ts'
import { newestPage } from '../store/newest-page.ts'
import type { Page } from '../store/page.ts'
import { isUniqueViolation } from '../store/sqlite-error.ts'

export interface SecretRow {
  readonly id: string
  readonly owner: string
  readonly name: string
  readonly placeholder: string
  readonly sealedValue: Uint8Array
  readonly domains: readonly string[]
  readonly createdAt: number
  readonly updatedAt: number
}

interface StoredRow {
  id: string
  owner: string
  name: string
  placeholder: string
  sealed_value: Uint8Array
  domains: string
  created_at: number
  updated_at: number
}

export class SecretRows {
  readonly #db: Database
  readonly #find

  constructor(db: Database) {
    this.#db = db
    this.#find = db.prepare<[string, string], StoredRow>(
      'SELECT * FROM edge_secrets WHERE owner = ? AND name = ?',
    )
  }

  add(row: SecretRow): void {
    try {
      this.#db
        .prepare<[string, string, string, string, Uint8Array, string, number, number]>(
          `INSERT INTO edge_secrets (id, owner, name, placeholder, sealed_value, domains, created_at, updated_at)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(
          ...([row.id, row.owner, row.name, row.placeholder] as const),
          ...([row.sealedValue, JSON.stringify(row.domains), row.createdAt, row.updatedAt] as const),
        )
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new DormouseError('name_taken', `There is already a secret named "${row.name}".`, {
        hint: 'Choose another name, or change the one that exists.',
      })
    }
  }

  change({ id, sealedValue, domains, updatedAt }: SecretRow): void {
    this.#db
      .prepare<[Uint8Array, string, number, string]>(
        'UPDATE edge_secrets SET sealed_value = ?, domains = ?, updated_at = ? WHERE id = ?',
      )
      .run(sealedValue, JSON.stringify(domains), updatedAt, id)
  }

  delete(id: string): void {
    this.#db.prepare<[string]>('DELETE FROM edge_secrets WHERE id = ?').run(id)
  }

  find(owner: string, name: string): SecretRow | undefined {
    const row = this.#find.get(owner, name)
    return row === undefined ? undefined : toRow(row)
  }

  /** Rows of all owners with that name. */
  named(name: string): SecretRow[] {
    return this.#db
      .prepare<[string], StoredRow>('SELECT * FROM edge_secrets WHERE name = ?')
      .all(name)
      .map(toRow)
  }

  count(owner: string): number {
    const row = this.#db
      .prepare<[string], { count: number }>('SELECT count(*) AS count FROM edge_secrets WHERE owner = ?')
      .get(owner)
    return row?.count ?? 0
  }

  /** Newest first. Without `owner`: of all owners. */
  list(query: { limit: number; cursor?: string }, owner: string | undefined): Page<SecretRow> {
    const page = newestPage<StoredRow>(this.#db, { table: 'edge_secrets', matching: { owner } }, query)
    return { ...page, items: page.items.map(toRow) }
  }
}

function toRow(stored: StoredRow): SecretRow {
  const { sealed_value: sealedValue, created_at: createdAt, updated_at: updatedAt, domains, ...rest } = stored
  return { ...rest, sealedValue, createdAt, updatedAt, domains: JSON.parse(domains) as string[] }
}
