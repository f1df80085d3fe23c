import { randomBytes } from 'node:crypto'
import type { Database } from '../store/database.ts'

const ID_BYTES = 5

/** What a host remembers of itself in the cluster. */
export class ClusterRows {
  readonly hostId: string
  /** This data directory has not been in a cluster before. */
  readonly isNew: boolean
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
    const insert = db.prepare<[string]>(
      'INSERT INTO host (id) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM host)',
    )
    const { changes } = insert.run(`host-${randomBytes(ID_BYTES).toString('hex')}`)
    this.isNew = changes > 0
    this.hostId = db.prepare<[], { id: string }>('SELECT id FROM host').get()?.id ?? ''
  }

  get isCordoned(): boolean {
    return (
      this.#db.prepare<[], { is_cordoned: number }>('SELECT is_cordoned FROM host').get()?.is_cordoned === 1
    )
  }

  set isCordoned(isCordoned: boolean) {
    this.#db.prepare<[number]>('UPDATE host SET is_cordoned = ?').run(Number(isCordoned))
  }

  /** The shared state that this host has joined; empty before. */
  get stateId(): string {
    return this.#db.prepare<[], { state_id: string }>('SELECT state_id FROM host').get()?.state_id ?? ''
  }

  set stateId(stateId: string) {
    this.#db.prepare<[string]>('UPDATE host SET state_id = ?').run(stateId)
  }
}
