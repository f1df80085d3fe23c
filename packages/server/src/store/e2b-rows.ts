import type { Database } from './database.ts'

/** Records of the sandboxes that clients of E2B use. All are cached; every change is written first. */
export class E2bRows<Value extends { readonly sandboxId: string }> {
  readonly #put
  readonly #exists
  readonly #records = new Map<string, Value>()

  constructor(db: Database) {
    this.#put = db.prepare<[string, string]>(
      `INSERT INTO e2b_sandboxes VALUES (?, ?) ON CONFLICT (sandbox_id) DO UPDATE SET record = excluded.record`,
    )
    this.#exists = db.prepare<[string], { id: string }>('SELECT id FROM sandboxes WHERE id = ?')
    const rows = db.prepare<[], { sandbox_id: string; record: string }>('SELECT * FROM e2b_sandboxes').all()
    for (const { sandbox_id, record } of rows) this.#records.set(sandbox_id, JSON.parse(record))
  }

  find(sandboxId: string): Value | undefined {
    return this.#records.get(sandboxId)
  }

  /** Does nothing for a sandbox that has been deleted meanwhile. */
  put(record: Value): void {
    if (this.#exists.get(record.sandboxId) === undefined) return
    this.#put.run(record.sandboxId, JSON.stringify(record))
    this.#records.set(record.sandboxId, record)
  }

  /** The row goes with the row of its sandbox. */
  forget(sandboxId: string): void {
    this.#records.delete(sandboxId)
  }
}
