import type { SnapshotId } from '@dormouse/contracts'
import type { Database } from '../store/database.ts'

export interface TemplateRow {
  readonly name: string
  readonly owner: string
  readonly description: string | undefined
  readonly state: 'building' | 'ready' | 'failed'
  readonly source: 'description' | 'snapshot'
  readonly snapshotId: SnapshotId | undefined
  readonly createdAt: number
  readonly logTail: string | undefined
  readonly error: string | undefined
}

interface StoredRow {
  name: string
  owner: string
  description: string | null
  state: TemplateRow['state']
  source: TemplateRow['source']
  snapshot_id: SnapshotId | null
  created_at: number
  log_tail: string | null
  error: string | null
}

export class TemplateRows {
  readonly #put
  readonly #all
  readonly #delete

  constructor(db: Database) {
    this.#put = db.prepare<(string | number | null)[]>(
      `INSERT OR REPLACE INTO templates (name, owner, description, state, source, snapshot_id, created_at, log_tail, error)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    this.#all = db.prepare<[], StoredRow>('SELECT * FROM templates ORDER BY name')
    this.#delete = db.prepare<[string, string]>('DELETE FROM templates WHERE owner = ? AND name = ?')
  }

  put(row: TemplateRow): void {
    this.#put.run(
      row.name,
      row.owner,
      row.description ?? null,
      row.state,
      row.source,
      row.snapshotId ?? null,
      row.createdAt,
      row.logTail ?? null,
      row.error ?? null,
    )
  }

  all(): TemplateRow[] {
    return this.#all.all().map((row) => ({
      name: row.name,
      owner: row.owner,
      description: row.description ?? undefined,
      state: row.state,
      source: row.source,
      snapshotId: row.snapshot_id ?? undefined,
      createdAt: row.created_at,
      logTail: row.log_tail ?? undefined,
      error: row.error ?? undefined,
    }))
  }

  delete({ owner, name }: Pick<TemplateRow, 'owner' | 'name'>): void {
    this.#delete.run(owner, name)
  }
}
