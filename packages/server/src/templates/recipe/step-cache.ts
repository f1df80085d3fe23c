import type { SnapshotId } from '@dormouse/contracts'
import type { Database } from '../../store/database.ts'

/** Steps of one key that are kept, and how long after their last use. */
const KEPT_PER_OWNER = 200
const KEPT_MS = 7 * 24 * 3_600_000

/** Files of finished build steps. A key finds its own only. */
export class StepCache {
  readonly #db: Database
  readonly #now: () => number

  constructor(db: Database, now: () => number) {
    this.#db = db
    this.#now = now
  }

  find(owner: string, key: string): SnapshotId | undefined {
    const found = this.#db
      .prepare<[string, string], { snapshot_id: SnapshotId }>(
        `SELECT snapshot_id FROM build_steps JOIN snapshots ON snapshots.id = snapshot_id
         WHERE build_steps.owner = ? AND key = ?`,
      )
      .get(owner, key)
    if (found === undefined) return undefined
    this.#db
      .prepare<[number, string, string]>('UPDATE build_steps SET used_at = ? WHERE owner = ? AND key = ?')
      .run(this.#now(), owner, key)
    return found.snapshot_id
  }

  put(owner: string, key: string, snapshotId: SnapshotId): void {
    this.#db
      .prepare<[string, string, string, number]>(
        'INSERT OR REPLACE INTO build_steps (owner, key, snapshot_id, used_at) VALUES (?, ?, ?, ?)',
      )
      .run(owner, key, snapshotId, this.#now())
  }

  /** Forgets old steps, and returns their snapshots, which the caller removes. */
  tidy(owner: string): SnapshotId[] {
    return this.#db.transaction(() => {
      const old = this.#db
        .prepare<[string, number, string, number], { key: string; snapshot_id: SnapshotId }>(
          `SELECT key, snapshot_id FROM build_steps WHERE owner = ? AND (used_at < ? OR key NOT IN
             (SELECT key FROM build_steps WHERE owner = ? ORDER BY used_at DESC LIMIT ?))`,
        )
        .all(owner, this.#now() - KEPT_MS, owner, KEPT_PER_OWNER)
      const remove = this.#db.prepare<[string, string]>('DELETE FROM build_steps WHERE owner = ? AND key = ?')
      for (const { key } of old) remove.run(owner, key)
      return old.map(({ snapshot_id }) => snapshot_id)
    })
  }
}
