import type { Database } from './database.ts'

/** Ids of deleted sandboxes that are remembered, the latest. */
const GONE_MAX = 10_000

/** Records of the sandboxes that clients of E2B use. All are cached; every change is written first. */
export class E2bRows<Value extends { readonly sandboxId: string }> {
  readonly #put
  readonly #exists
  readonly #records = new Map<string, Value>()
  readonly #gone = new Set<string>()

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

  /** Whether it had a record that was removed since this server started. */
  isGone(sandboxId: string): boolean {
    return this.#gone.has(sandboxId)
  }

  all(): Iterable<Value> {
    return this.#records.values()
  }

  /** Does nothing for a sandbox that has been deleted meanwhile. */
  put(record: Value): void {
    if (this.#exists.get(record.sandboxId) === undefined) return
    this.#put.run(record.sandboxId, JSON.stringify(record))
    this.#records.set(record.sandboxId, record)
  }

  /** The row goes with the row of its sandbox. */
  forget(sandboxId: string): void {
    if (!this.#records.delete(sandboxId)) return
    this.#gone.add(sandboxId)
    for (const oldest of this.#gone) {
      if (this.#gone.size <= GONE_MAX) break
      this.#gone.delete(oldest)
    }
  }
}
