import type { Database } from './database.ts'

export interface ScrubPass {
  /** Of the current pass, or of the last one. */
  readonly beganAt: number | undefined
  /** Of the last complete pass. */
  readonly finishedAt: number | undefined
  /** By all passes so far. */
  readonly readBytes: number
}

export interface ScrubbedPart {
  readonly key: string
  readonly checkedAt: number
  readonly damage: string | undefined
}

/** Progress of the scrub. After a power cut, parts may be read again. */
export class ScrubRows {
  readonly #db: Database
  readonly #pass
  readonly #part
  readonly #parts
  readonly #put
  readonly #count
  readonly #delete

  constructor(db: Database) {
    this.#db = db
    this.#pass = db.prepare<[], { began_at: number | null; finished_at: number | null; read_bytes: number }>(
      'SELECT began_at, finished_at, read_bytes FROM scrub',
    )
    this.#part = db.prepare<[string], { key: string; checked_at: number; damage: string | null }>(
      'SELECT * FROM scrubbed_parts WHERE key = ?',
    )
    this.#parts = db.prepare<[], { key: string }>('SELECT key FROM scrubbed_parts')
    this.#put = db.prepare<[string, number, string | null]>(
      'INSERT OR REPLACE INTO scrubbed_parts (key, checked_at, damage) VALUES (?, ?, ?)',
    )
    this.#count = db.prepare<[number]>('UPDATE scrub SET read_bytes = read_bytes + ?')
    this.#delete = db.prepare<[string]>('DELETE FROM scrubbed_parts WHERE key = ?')
  }

  pass(): ScrubPass {
    const row = this.#pass.get()
    return {
      beganAt: row?.began_at ?? undefined,
      finishedAt: row?.finished_at ?? undefined,
      readBytes: row?.read_bytes ?? 0,
    }
  }

  begin(now: number): void {
    this.#db.prepare<[number]>('UPDATE scrub SET began_at = ?').run(now)
  }

  /** Deletes rows of parts that no longer exist. */
  finish(now: number, parts: ReadonlySet<string>): void {
    this.#db.transactionWithoutSync(() => {
      for (const { key } of this.#parts.all()) if (!parts.has(key)) this.#delete.run(key)
      this.#db.prepare<[number]>('UPDATE scrub SET finished_at = ?').run(now)
    })
  }

  find(key: string): ScrubbedPart | undefined {
    const row = this.#part.get(key)
    return row && { key, checkedAt: row.checked_at, damage: row.damage ?? undefined }
  }

  checked({ key, checkedAt, damage }: ScrubbedPart, readBytes: number): void {
    this.#db.transactionWithoutSync(() => {
      this.#put.run(key, checkedAt, damage ?? null)
      this.#count.run(readBytes)
    })
  }
}
