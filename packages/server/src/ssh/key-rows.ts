import { DormouseError } from '@dormouse/contracts'
import type { Database } from '../store/database.ts'
import { newestPage } from '../store/newest-page.ts'
import type { Page } from '../store/page.ts'
import { isUniqueViolation } from '../store/sqlite-error.ts'
import type { PublicKey } from './public-key.ts'

export interface SshKeyRow extends PublicKey {
  readonly id: string
  readonly owner: string
  readonly name: string
  readonly createdAt: number
  /** Undefined until the holder has proved to have the private key. */
  readonly confirmedAt: number | undefined
  /** Identifies the API key when the holder confirms the key. */
  readonly code: string
}

interface StoredRow {
  id: string
  owner: string
  name: string
  type: string
  blob: Uint8Array
  created_at: number
  confirmed_at: number | null
  code: string
}

export class SshKeyRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Throws `name_taken`, and `already_exists` when the owner has the same key under another name. */
  add(row: SshKeyRow): void {
    try {
      this.#db
        .prepare<[string, string, string, string, Uint8Array, number, string]>(
          'INSERT INTO ssh_keys (id, owner, name, type, blob, created_at, code) VALUES (?, ?, ?, ?, ?, ?, ?)',
        )
        .run(row.id, row.owner, row.name, row.type, row.blob, row.createdAt, row.code)
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      const other = this.ofOwner(row.owner).find(({ blob }) => blob.equals(row.blob))
      if (other !== undefined && other.name !== row.name)
        throw new DormouseError('already_exists', `This key is already registered as "${other.name}".`, {
          hint: 'To rename it, delete it and add it again.',
        })
      throw new DormouseError('name_taken', `There is already an SSH key named "${row.name}".`, {
        hint: 'Choose another name, or delete that one first.',
      })
    }
  }

  confirm(id: string, at: number): void {
    this.#db.prepare<[number, string]>('UPDATE ssh_keys SET confirmed_at = ? WHERE id = ?').run(at, id)
  }

  delete(id: string): void {
    this.#db.prepare<[string]>('DELETE FROM ssh_keys WHERE id = ?').run(id)
  }

  /** Oldest first. */
  all(): SshKeyRow[] {
    return this.#db.prepare<[], StoredRow>('SELECT * FROM ssh_keys ORDER BY rowid').all().map(toRow)
  }

  ofOwner(owner: string): SshKeyRow[] {
    return this.#db
      .prepare<[string], StoredRow>('SELECT * FROM ssh_keys WHERE owner = ?')
      .all(owner)
      .map(toRow)
  }

  /** Rows of all owners with that name. */
  named(name: string): SshKeyRow[] {
    return this.#db.prepare<[string], StoredRow>('SELECT * FROM ssh_keys WHERE name = ?').all(name).map(toRow)
  }

  /** Newest first. Without `owner`: of all owners. */
  list(query: { limit: number; cursor?: string }, owner: string | undefined): Page<SshKeyRow> {
    const page = newestPage<StoredRow>(this.#db, { table: 'ssh_keys', matching: { owner } }, query)
    return { ...page, items: page.items.map(toRow) }
  }
}

function toRow(stored: StoredRow): SshKeyRow {
  const { created_at: createdAt, confirmed_at: confirmedAt, blob, ...rest } = stored
  return { ...rest, createdAt, confirmedAt: confirmedAt ?? undefined, blob: Buffer.from(blob) }
}
