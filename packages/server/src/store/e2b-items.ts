import type { Database } from './database.ts'

interface ItemRef {
  readonly kind: string
  readonly owner: string
  readonly name: string
}

/** Small things of keys that clients of E2B know, as JSON. */
export class E2bItems {
  readonly #find
  readonly #list
  readonly #put
  readonly #delete

  constructor(db: Database) {
    this.#find = db.prepare<[string, string, string], { value: string }>(
      'SELECT value FROM e2b_items WHERE kind = ? AND owner = ? AND name = ?',
    )
    this.#list = db.prepare<[string, string], { name: string; value: string }>(
      'SELECT name, value FROM e2b_items WHERE kind = ? AND owner = ? ORDER BY name',
    )
    this.#put = db.prepare<[string, string, string, string]>(
      `INSERT INTO e2b_items VALUES (?, ?, ?, ?)
       ON CONFLICT (kind, owner, name) DO UPDATE SET value = excluded.value`,
    )
    this.#delete = db.prepare<[string, string, string]>(
      'DELETE FROM e2b_items WHERE kind = ? AND owner = ? AND name = ?',
    )
  }

  find({ kind, owner, name }: ItemRef): unknown {
    const row = this.#find.get(kind, owner, name)
    return row === undefined ? undefined : JSON.parse(row.value)
  }

  list(kind: string, owner: string): { name: string; value: unknown }[] {
    return this.#list.all(kind, owner).map(({ name, value }) => ({ name, value: JSON.parse(value) }))
  }

  put({ kind, owner, name }: ItemRef, value: object): void {
    this.#put.run(kind, owner, name, JSON.stringify(value))
  }

  delete({ kind, owner, name }: ItemRef): void {
    this.#delete.run(kind, owner, name)
  }
}
