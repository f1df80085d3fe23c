import { DormouseError, type SandboxId, type SnapshotId, type VolumeId } from '@dormouse/contracts'
import type { Database } from '../store/database.ts'
import { newestPage } from '../store/newest-page.ts'
import type { Page } from '../store/page.ts'
import { isUniqueViolation } from '../store/sqlite-error.ts'

export interface VolumeRow {
  readonly id: VolumeId
  readonly owner: string
  readonly name: string
  /** Callers see `ready` volumes only. */
  readonly state: 'creating' | 'ready' | 'deleting'
  readonly createdAt: number
  /** As last measured, like `files`. */
  readonly bytes: number | undefined
  readonly files: number | undefined
  /** Its size limit; undefined for the default of the settings. */
  readonly sizeBytes: number | undefined
}

interface StoredRow {
  id: VolumeId
  owner: string
  name: string
  state: VolumeRow['state']
  created_at: number
  bytes: number | null
  files: number | null
  size_bytes: number | null
}

export class VolumeRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  add(row: VolumeRow): void {
    try {
      this.#db
        .prepare<[string, string, string, string, number, number | null]>(
          'INSERT INTO volumes (id, owner, name, state, created_at, size_bytes) VALUES (?, ?, ?, ?, ?, ?)',
        )
        .run(row.id, row.owner, row.name, row.state, row.createdAt, row.sizeBytes ?? null)
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new DormouseError('name_taken', `There is already a volume named "${row.name}".`, {
        hint: 'Choose another name, or use the one that exists.',
      })
    }
  }

  setState(id: VolumeId, state: VolumeRow['state']): void {
    this.#db.prepare<[string, string]>('UPDATE volumes SET state = ? WHERE id = ?').run(state, id)
  }

  setUse(id: VolumeId, { bytes, files }: { readonly bytes: number; readonly files: number }): void {
    this.#db
      .prepare<[number, number, string]>('UPDATE volumes SET bytes = ?, files = ? WHERE id = ?')
      .run(bytes, files, id)
  }

  setSize(id: VolumeId, sizeBytes: number): void {
    this.#db.prepare<[number, string]>('UPDATE volumes SET size_bytes = ? WHERE id = ?').run(sizeBytes, id)
  }

  get(id: VolumeId): VolumeRow | undefined {
    const row = this.#db.prepare<[string], StoredRow>('SELECT * FROM volumes WHERE id = ?').get(id)
    return row === undefined ? undefined : toRow(row)
  }

  delete(id: VolumeId): void {
    this.#db.prepare<[string]>('DELETE FROM volumes WHERE id = ?').run(id)
  }

  all(): VolumeRow[] {
    return this.#db.prepare<[], StoredRow>('SELECT * FROM volumes').all().map(toRow)
  }

  /** Rows of all owners with that name. */
  named(name: string): VolumeRow[] {
    return this.#db.prepare<[string], StoredRow>('SELECT * FROM volumes WHERE name = ?').all(name).map(toRow)
  }

  count(owner: string): number {
    const row = this.#db
      .prepare<[string], { count: number }>('SELECT count(*) AS count FROM volumes WHERE owner = ?')
      .get(owner)
    return row?.count ?? 0
  }

  /** Their total size on disk, as last measured. */
  bytesOf(owner: string): number {
    const row = this.#db
      .prepare<[string], { bytes: number | null }>('SELECT sum(bytes) AS bytes FROM volumes WHERE owner = ?')
      .get(owner)
    return row?.bytes ?? 0
  }

  /** Newest first. Without `owner`: of all owners. */
  list(query: { limit: number; cursor?: string }, owner: string | undefined): Page<VolumeRow> {
    const matching = { owner, state: 'ready' }
    const page = newestPage<StoredRow>(this.#db, { table: 'volumes', matching }, query)
    return { ...page, items: page.items.map(toRow) }
  }

  /** Sandboxes that mount it, awake or asleep. */
  sandboxesOf(id: VolumeId): SandboxId[] {
    return this.#db
      .prepare<[string], { id: SandboxId }>(
        `SELECT DISTINCT s.id FROM sandboxes AS s, json_each(s.volumes) AS v
         WHERE json_extract(v.value, '$.volumeId') = ? ORDER BY s.created_at, s.id`,
      )
      .all(id)
      .map((row) => row.id)
  }

  /** Snapshots whose sandboxes mount it. */
  snapshotsOf(id: VolumeId): SnapshotId[] {
    return this.#db
      .prepare<[string], { id: SnapshotId }>(
        'SELECT DISTINCT s.id FROM snapshots AS s, json_each(s.volumes) AS v WHERE v.value = ? ORDER BY s.created_at, s.id',
      )
      .all(id)
      .map((row) => row.id)
  }
}

function toRow(row: StoredRow): VolumeRow {
  const { created_at: createdAt, size_bytes: sizeBytes, bytes, files, ...rest } = row
  return {
    ...{ ...rest, createdAt, bytes: bytes ?? undefined, files: files ?? undefined },
    sizeBytes: sizeBytes ?? undefined,
  }
}
