import type { SnapshotId } from '@dormouse/contracts'
import type { ContextVariables } from '@dormouse/engine'
import type { Database } from './database.ts'

export interface RecordedVariables {
  readonly recordedAt: number
  readonly contexts: readonly ContextVariables[]
}

interface StoredRow {
  recorded_at: number
  contexts: string
}

/** Variables by the snapshot that has them. They are deleted with its row. */
export class VariableRows {
  readonly #put
  readonly #get

  constructor(db: Database) {
    this.#put = db.prepare<[string, number, string]>(
      'INSERT OR REPLACE INTO snapshot_variables (snapshot_id, recorded_at, contexts) VALUES (?, ?, ?)',
    )
    this.#get = db.prepare<[string], StoredRow>(
      'SELECT recorded_at, contexts FROM snapshot_variables WHERE snapshot_id = ?',
    )
  }

  put(id: SnapshotId, { recordedAt, contexts }: RecordedVariables): void {
    this.#put.run(id, recordedAt, JSON.stringify(contexts))
  }

  find(id: SnapshotId | undefined): RecordedVariables | undefined {
    const row = id === undefined ? undefined : this.#get.get(id)
    return row === undefined ? undefined : { recordedAt: row.recorded_at, contexts: JSON.parse(row.contexts) }
  }
}
