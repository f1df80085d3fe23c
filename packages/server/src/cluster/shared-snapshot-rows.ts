import type { SnapshotId } from '@dormouse/contracts'
import type { Database } from '../store/database.ts'

/** The table `shared_snapshots`: which snapshots of this host the cluster knows. */
export class SharedSnapshotRows {
  readonly #db: Database
  readonly #stateId: string

  /** Rows of another `stateId` say nothing: no host removes a snapshot because NATS has lost its record. */
  constructor(db: Database, stateId: string) {
    this.#db = db
    this.#stateId = stateId
    db.prepare<[string]>('DELETE FROM shared_snapshots WHERE state_id <> ?').run(stateId)
  }

  ids(): SnapshotId[] {
    return this.#db
      .prepare<[], { id: SnapshotId }>('SELECT id FROM shared_snapshots')
      .all()
      .map(({ id }) => id)
  }

  has(id: SnapshotId): boolean {
    return (
      this.#db.prepare<[string], { id: string }>('SELECT id FROM shared_snapshots WHERE id = ?').get(id) !==
      undefined
    )
  }

  add(id: SnapshotId): void {
    this.#db
      .prepare<[string, string]>('INSERT OR IGNORE INTO shared_snapshots (id, state_id) VALUES (?, ?)')
      .run(id, this.#stateId)
  }

  remove(id: SnapshotId): void {
    this.#db.prepare<[string]>('DELETE FROM shared_snapshots WHERE id = ?').run(id)
  }
}
