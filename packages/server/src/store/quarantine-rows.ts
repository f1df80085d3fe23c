import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Database } from './database.ts'

export interface Damage {
  /** In words. */
  readonly reason: string
  readonly foundAt: number
}

export interface DamagedSnapshot extends Damage {
  readonly snapshotId: SnapshotId
  readonly sandboxId: SandboxId
}

export interface DamagedTemplate extends Damage {
  readonly template: string
}

interface StoredDamage {
  reason: string
  found_at: number
}

/** Snapshots and templates that are known to be damaged. Deleting a snapshot deletes its rows. */
export class QuarantineRows {
  readonly #db: Database
  readonly #ofSnapshot
  readonly #ofTemplate
  readonly #snapshots
  readonly #templates
  readonly #addSnapshot
  readonly #addTemplate

  constructor(db: Database) {
    this.#db = db
    this.#ofSnapshot = db.prepare<[string], StoredDamage>(
      'SELECT reason, found_at FROM quarantined_snapshots WHERE snapshot_id = ? ORDER BY found_at LIMIT 1',
    )
    this.#ofTemplate = db.prepare<[string], StoredDamage>(
      'SELECT reason, found_at FROM quarantined_templates WHERE name = ? ORDER BY found_at LIMIT 1',
    )
    this.#snapshots = db.prepare<[], StoredDamage & { id: SnapshotId; sandbox_id: SandboxId }>(
      `SELECT snapshots.id, sandbox_id, reason, min(found_at) AS found_at FROM quarantined_snapshots
       JOIN snapshots ON snapshots.id = snapshot_id GROUP BY snapshots.id ORDER BY found_at`,
    )
    this.#templates = db.prepare<[], StoredDamage & { name: string }>(
      'SELECT name, reason, min(found_at) AS found_at FROM quarantined_templates GROUP BY name ORDER BY found_at',
    )
    this.#addSnapshot = db.prepare<[string, string, string, number]>(
      `INSERT OR IGNORE INTO quarantined_snapshots (snapshot_id, part, reason, found_at)
       SELECT id, ?2, ?3, ?4 FROM snapshots WHERE id = ?1`,
    )
    this.#addTemplate = db.prepare<[string, string, string, number]>(
      'INSERT OR IGNORE INTO quarantined_templates (name, part, reason, found_at) VALUES (?, ?, ?, ?)',
    )
  }

  findSnapshot(id: string): Damage | undefined {
    return toDamage(this.#ofSnapshot.get(id))
  }

  findTemplate(name: string): Damage | undefined {
    return toDamage(this.#ofTemplate.get(name))
  }

  snapshots(): DamagedSnapshot[] {
    return this.#snapshots.all().map(({ id, sandbox_id, reason, found_at }) => ({
      snapshotId: id,
      sandboxId: sandbox_id,
      reason,
      foundAt: found_at,
    }))
  }

  templates(): DamagedTemplate[] {
    return this.#templates
      .all()
      .map(({ name, reason, found_at }) => ({ template: name, reason, foundAt: found_at }))
  }

  /** False when it was known, or the snapshot is deleted. */
  addSnapshot(id: SnapshotId, part: string, { reason, foundAt }: Damage): boolean {
    return this.#addSnapshot.run(id, part, reason, foundAt).changes > 0
  }

  addTemplate(name: string, part: string, { reason, foundAt }: Damage): void {
    this.#addTemplate.run(name, part, reason, foundAt)
  }

  /** The part is intact. */
  deletePart(part: string): void {
    this.#db.transaction(() => {
      this.#db.prepare<[string]>('DELETE FROM quarantined_snapshots WHERE part = ?').run(part)
      this.#db.prepare<[string]>('DELETE FROM quarantined_templates WHERE part = ?').run(part)
    })
  }

  deleteOfSnapshot(id: SnapshotId, part: string): void {
    this.#db
      .prepare<[string, string]>('DELETE FROM quarantined_snapshots WHERE snapshot_id = ? AND part = ?')
      .run(id, part)
  }

  /** Deletes rows of parts that no longer exist. */
  keepParts(isThere: (part: string) => boolean): void {
    const parts = this.#db
      .prepare<[], { part: string }>(
        'SELECT part FROM quarantined_snapshots UNION SELECT part FROM quarantined_templates',
      )
      .all()
    for (const { part } of parts) if (!isThere(part)) this.deletePart(part)
  }

  /** The newest older snapshot of these sandboxes that is not known to be damaged. */
  findOlderGood(
    { id, createdAt }: { id: SnapshotId; createdAt: number },
    sandboxes: readonly [SandboxId, SandboxId],
  ): SnapshotId | undefined {
    return this.#db
      .prepare<[string, string, number, string], { id: SnapshotId }>(
        `SELECT id FROM snapshots WHERE sandbox_id IN (?, ?) AND created_at <= ? AND id != ?
         AND id NOT IN (SELECT snapshot_id FROM quarantined_snapshots)
         ORDER BY created_at DESC LIMIT 1`,
      )
      .get(...sandboxes, createdAt, id)?.id
  }
}

function toDamage(row: StoredDamage | undefined): Damage | undefined {
  return row && { reason: row.reason, foundAt: row.found_at }
}
