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
  /** Nothing can write to it. */
  readonly readOnly: boolean
  /** The name of the volume that it was cloned from. */
  readonly clonedFrom: string | undefined
}

export type ShareAccess = 'read' | 'write'

export interface VolumeShare {
  readonly keyId: string
  readonly access: ShareAccess
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
  read_only: number
  cloned_from: string | null
}

export class VolumeRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  add(row: VolumeRow): void {
    try {
      this.#db
        .prepare<(string | number | null)[]>(
          `INSERT INTO volumes (id, owner, name, state, created_at, size_bytes, read_only, cloned_from)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(
          ...[row.id, row.owner, row.name, row.state, row.createdAt, row.sizeBytes ?? null],
          ...[Number(row.readOnly), row.clonedFrom ?? null],
        )
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

  /** Newest first: those of a key, and those that are shared with it. Without `keyId`: all. */
  list(query: { limit: number; cursor?: string }, keyId: string | undefined): Page<VolumeRow> {
    const usable = '(owner = ? OR id IN (SELECT volume_id FROM volume_shares WHERE key_id = ?))'
    const page = newestPage<StoredRow>(
      this.#db,
      {
        table: 'volumes',
        matching: { state: 'ready' },
        where: keyId === undefined ? [] : [usable],
        values: keyId === undefined ? [] : [keyId, keyId],
      },
      query,
    )
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

  /**
   * Kept snapshots whose sandboxes mount it. A sandbox wakes from its head with the volumes that it has now, so heads
   * do not count.
   */
  snapshotsOf(id: VolumeId): SnapshotId[] {
    return this.#db
      .prepare<[string], { id: SnapshotId }>(
        `SELECT DISTINCT s.id FROM snapshots AS s, json_each(s.volumes) AS v WHERE v.value = ?
         AND (s.is_kept = 1 OR s.id NOT IN (SELECT head FROM sandboxes WHERE head IS NOT NULL))
         ORDER BY s.created_at, s.id`,
      )
      .all(id)
      .map((row) => row.id)
  }

  /** Keys that may use it besides its owner. */
  sharesOf(id: VolumeId): VolumeShare[] {
    return this.#db
      .prepare<[string], { key_id: string; access: ShareAccess }>(
        'SELECT key_id, access FROM volume_shares WHERE volume_id = ? ORDER BY key_id',
      )
      .all(id)
      .map(({ key_id: keyId, access }) => ({ keyId, access }))
  }

  putShare(id: VolumeId, { keyId, access }: VolumeShare): void {
    this.#db
      .prepare<[string, string, string]>(
        'INSERT OR REPLACE INTO volume_shares (volume_id, key_id, access) VALUES (?, ?, ?)',
      )
      .run(id, keyId, access)
  }

  deleteShare(id: VolumeId, keyId: string): boolean {
    const statement = 'DELETE FROM volume_shares WHERE volume_id = ? AND key_id = ?'
    return this.#db.prepare<[string, string]>(statement).run(id, keyId).changes > 0
  }
}

function toRow(row: StoredRow): VolumeRow {
  const { created_at: createdAt, size_bytes: sizeBytes, bytes, files, ...more } = row
  const { read_only: readOnly, cloned_from: clonedFrom, ...rest } = more
  return {
    ...{ ...rest, createdAt, bytes: bytes ?? undefined, files: files ?? undefined },
    ...{ sizeBytes: sizeBytes ?? undefined, readOnly: readOnly === 1, clonedFrom: clonedFrom ?? undefined },
  }
}
