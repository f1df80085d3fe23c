import type { Database } from '../store/database.ts'

export interface SessionRow {
  readonly keyId: string
  readonly expiresAtMs: number
}

type StoredSession = { key_id: string; expires_at_ms: number }

/** Sign-ins of the page, by the digest of their token. */
export class SessionRows {
  readonly #find
  readonly #add
  readonly #delete
  readonly #deleteExpired
  readonly #prune

  constructor(database: Database) {
    this.#find = database.prepare<[Uint8Array], StoredSession>(
      'SELECT key_id, expires_at_ms FROM sessions WHERE token_sha256 = ?',
    )
    this.#add = database.prepare<[Uint8Array, string, number]>('INSERT INTO sessions VALUES (?, ?, ?)')
    this.#delete = database.prepare<[Uint8Array]>('DELETE FROM sessions WHERE token_sha256 = ?')
    this.#deleteExpired = database.prepare<[number]>('DELETE FROM sessions WHERE expires_at_ms <= ?')
    this.#prune = database.prepare<[string, string, number]>(
      `DELETE FROM sessions WHERE key_id = ? AND token_sha256 NOT IN
        (SELECT token_sha256 FROM sessions WHERE key_id = ? ORDER BY expires_at_ms DESC LIMIT ?)`,
    )
  }

  find(digest: Uint8Array): SessionRow | undefined {
    const row = this.#find.get(digest)
    return row && { keyId: row.key_id, expiresAtMs: row.expires_at_ms }
  }

  add(digest: Uint8Array, { keyId, expiresAtMs }: SessionRow): void {
    this.#add.run(digest, keyId, expiresAtMs)
  }

  delete(digest: Uint8Array): void {
    this.#delete.run(digest)
  }

  /** Keeps the newest sessions of a key. */
  prune(keyId: string, { kept, nowMs }: { kept: number; nowMs: number }): void {
    this.#deleteExpired.run(nowMs)
    this.#prune.run(keyId, keyId, kept)
  }
}
