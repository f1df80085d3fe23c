import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Snapshot } from '@dormouse/engine'
import type { Database } from './database.ts'
import { newestPage } from './newest-page.ts'
import type { Page } from './page.ts'

export interface SnapshotRow {
  readonly id: SnapshotId
  readonly sandboxId: SandboxId
  readonly owner: string
  readonly name: string | undefined
  readonly kind: 'full' | 'files'
  readonly parent: SnapshotId | undefined
  readonly template: string
  readonly createdAt: number
  readonly isKept: boolean
  readonly imageBytes: number
  readonly memoryBytes: number
}

interface StoredRow {
  id: SnapshotId
  sandbox_id: SandboxId
  owner: string
  name: string | null
  kind: 'full' | 'files'
  parent: SnapshotId | null
  template: string
  created_at: number
  is_kept: number
  image_bytes: number
  memory_bytes: number
}

export interface KeepSnapshot {
  readonly owner: string
  readonly name?: string | undefined
  readonly isKept: boolean
}

export class SnapshotRows {
  readonly #db: Database
  readonly #get
  /** How many callers hold each snapshot. */
  readonly #held = new Map<SnapshotId, number>()

  constructor(db: Database) {
    this.#db = db
    this.#get = db.prepare<[string], StoredRow>('SELECT * FROM snapshots WHERE id = ?')
  }

  put(snapshot: Snapshot, { owner, name, isKept }: KeepSnapshot): void {
    this.#db
      .prepare<(string | number | null)[]>(
        `INSERT INTO snapshots (id, sandbox_id, owner, name, kind, parent, template, created_at, is_kept, image_bytes, memory_bytes, volumes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET name = coalesce(excluded.name, name), is_kept = max(is_kept, excluded.is_kept)`,
      )
      .run(
        snapshot.id,
        snapshot.sandboxId,
        owner,
        name ?? null,
        snapshot.kind,
        snapshot.parent ?? null,
        snapshot.template,
        snapshot.createdAt.getTime(),
        Number(isKept),
        snapshot.bytes.images,
        snapshot.bytes.memory,
        JSON.stringify(snapshot.volumes.map(({ volumeId }) => volumeId)),
      )
  }

  get(id: string): SnapshotRow | undefined {
    const row = this.#get.get(id)
    return row === undefined ? undefined : toRow(row)
  }

  /** A kept snapshot by its name, which is unique among those of its sandbox. */
  findNamed(sandboxId: SandboxId, name: string): SnapshotRow | undefined {
    const row = this.#db
      .prepare<[string, string], StoredRow>('SELECT * FROM snapshots WHERE sandbox_id = ? AND name = ?')
      .get(sandboxId, name)
    return row === undefined ? undefined : toRow(row)
  }

  /** Those that their owners keep. */
  kept(): SnapshotRow[] {
    return this.#db.prepare<[], StoredRow>('SELECT * FROM snapshots WHERE is_kept = 1').all().map(toRow)
  }

  keep(id: SnapshotId, name: string | undefined): void {
    this.#db
      .prepare<[string | null, string]>(
        'UPDATE snapshots SET is_kept = 1, name = coalesce(?, name) WHERE id = ?',
      )
      .run(name ?? null, id)
  }

  unkeep(id: SnapshotId): void {
    this.#db.prepare<[string]>('UPDATE snapshots SET is_kept = 0, name = NULL WHERE id = ?').run(id)
  }

  /** Marks it as deleted. Delete its files next, then call `forget`. */
  delete(id: SnapshotId): void {
    this.#db.transaction(() => {
      this.#db.prepare<[string]>('INSERT OR IGNORE INTO doomed_snapshots (id) VALUES (?)').run(id)
      this.#db.prepare<[string]>('DELETE FROM snapshots WHERE id = ?').run(id)
    })
  }

  /** Its files are deleted. After a power cut, the next start may try to delete them again. */
  forget(id: SnapshotId): void {
    this.#db.transactionWithoutSync(() => {
      this.#db.prepare<[string]>('DELETE FROM doomed_snapshots WHERE id = ?').run(id)
    })
  }

  /** Deleted snapshots whose files may still exist. */
  doomed(): Set<SnapshotId> {
    const rows = this.#db.prepare<[], { id: SnapshotId }>('SELECT id FROM doomed_snapshots').all()
    return new Set(rows.map(({ id }) => id))
  }

  /** Until disposed, `isHeld` is true for this snapshot. Not recorded: a new server holds none. */
  hold(id: SnapshotId): Disposable {
    this.#held.set(id, (this.#held.get(id) ?? 0) + 1)
    return {
      [Symbol.dispose]: () => {
        const left = (this.#held.get(id) ?? 1) - 1
        if (left === 0) this.#held.delete(id)
        else this.#held.set(id, left)
      },
    }
  }

  isHeld(id: SnapshotId): boolean {
    return this.#held.has(id)
  }

  /** It is the head of a sandbox. */
  isHead(id: SnapshotId): boolean {
    return (
      this.#db
        .prepare<[string], { id: string }>('SELECT id FROM sandboxes WHERE head = ? LIMIT 1')
        .get(id) !== undefined
    )
  }

  /** A template or a kept step of a build refers to it. */
  isTemplate(id: SnapshotId): boolean {
    return (
      this.#db
        .prepare<[string, string, string, string], { name: string }>(
          `SELECT name FROM templates WHERE snapshot_id = ? OR files_snapshot_id = ? OR debug_snapshot_id = ?
           UNION ALL SELECT key FROM build_steps WHERE snapshot_id = ? LIMIT 1`,
        )
        .get(id, id, id, id) !== undefined
    )
  }

  usesTemplate(name: string): boolean {
    return (
      this.#db
        .prepare<[string], { id: string }>('SELECT id FROM snapshots WHERE template = ? LIMIT 1')
        .get(name) !== undefined
    )
  }

  /** Size of the snapshots of an owner. Shared parts count for each snapshot. */
  bytesOf(owner: string): number {
    return (
      this.#db
        .prepare<[string], { bytes: number | null }>(
          'SELECT sum(image_bytes + memory_bytes) AS bytes FROM snapshots WHERE owner = ?',
        )
        .get(owner)?.bytes ?? 0
    )
  }

  /** Memory in the snapshots that stored sandboxes wake from. */
  storedMemoryBytes(owner: string | undefined): number {
    const row = this.#db
      .prepare<[string | null], { bytes: number | null }>(
        `SELECT sum(snapshots.memory_bytes) AS bytes FROM sandboxes JOIN snapshots ON snapshots.id = sandboxes.head
         WHERE sandboxes.state = 'standby' AND sandboxes.tier = 'stored' AND sandboxes.owner = coalesce(?1, sandboxes.owner)`,
      )
      .get(owner ?? null)
    return row?.bytes ?? 0
  }

  /** Snapshots that are neither kept nor a head nor part of a template. */
  unused(): SnapshotId[] {
    return this.#db
      .prepare<[], { id: SnapshotId }>(
        `SELECT id FROM snapshots WHERE is_kept = 0
         AND id NOT IN (SELECT head FROM sandboxes WHERE head IS NOT NULL)
         AND id NOT IN (SELECT snapshot_id FROM templates WHERE snapshot_id IS NOT NULL)
         AND id NOT IN (SELECT files_snapshot_id FROM templates WHERE files_snapshot_id IS NOT NULL)
         AND id NOT IN (SELECT debug_snapshot_id FROM templates WHERE debug_snapshot_id IS NOT NULL)
         AND id NOT IN (SELECT snapshot_id FROM build_steps)`,
      )
      .all()
      .map((row) => row.id)
  }

  ids(): Set<SnapshotId> {
    return new Set(
      this.#db
        .prepare<[], { id: SnapshotId }>('SELECT id FROM snapshots')
        .all()
        .map((row) => row.id),
    )
  }

  /** Newest first. */
  list(
    query: { sandboxId?: string; limit: number; cursor?: string },
    owner: string | undefined,
  ): Page<SnapshotRow> {
    const matching = { owner, sandbox_id: query.sandboxId }
    // Cached steps of builds belong to the builder; their owner neither made nor can delete them.
    const where = ['id NOT IN (SELECT snapshot_id FROM build_steps)']
    const page = newestPage<StoredRow>(this.#db, { table: 'snapshots', matching, where }, query)
    return { ...page, items: page.items.map(toRow) }
  }
}

function toRow(row: StoredRow): SnapshotRow {
  return {
    id: row.id,
    sandboxId: row.sandbox_id,
    owner: row.owner,
    name: row.name ?? undefined,
    kind: row.kind,
    parent: row.parent ?? undefined,
    template: row.template,
    createdAt: row.created_at,
    isKept: row.is_kept === 1,
    imageBytes: row.image_bytes,
    memoryBytes: row.memory_bytes,
  }
}
