import { randomBytes } from 'node:crypto'
import type { Database } from '../store/database.ts'

const ID_BYTES = 5

/** What a host remembers of itself in the cluster. */
export class ClusterRows {
  readonly hostId: string
  /** This data directory has not been in a cluster before. */
  readonly isNew: boolean
  readonly #db: Database
  readonly #published: Set<string>

  constructor(db: Database) {
    this.#db = db
    const insert = db.prepare<[string]>(
      'INSERT INTO host (id) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM host)',
    )
    const { changes } = insert.run(`host-${randomBytes(ID_BYTES).toString('hex')}`)
    this.isNew = changes > 0
    this.hostId = db.prepare<[], { id: string }>('SELECT id FROM host').get()?.id ?? ''
    const rows = db.prepare<[], { sandbox_id: string }>('SELECT sandbox_id FROM published').all()
    this.#published = new Set(rows.map(({ sandbox_id: id }) => id))
  }

  get isCordoned(): boolean {
    return (
      this.#db.prepare<[], { is_cordoned: number }>('SELECT is_cordoned FROM host').get()?.is_cordoned === 1
    )
  }

  set isCordoned(isCordoned: boolean) {
    this.#db.prepare<[number]>('UPDATE host SET is_cordoned = ?').run(Number(isCordoned))
  }

  /** The directory has had an entry for it. */
  wasPublished(sandboxId: string): boolean {
    return this.#published.has(sandboxId)
  }

  addPublished(sandboxId: string): void {
    if (this.#published.has(sandboxId)) return
    this.#db.prepare<[string]>('INSERT OR IGNORE INTO published (sandbox_id) VALUES (?)').run(sandboxId)
    this.#published.add(sandboxId)
  }

  removePublished(sandboxId: string): void {
    if (!this.#published.delete(sandboxId)) return
    this.#db.prepare<[string]>('DELETE FROM published WHERE sandbox_id = ?').run(sandboxId)
  }
}
