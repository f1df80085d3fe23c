import { randomBytes } from 'node:crypto'
import type { SandboxId } from '@dormouse/contracts'
import type { Database } from '../store/database.ts'

const SECRET_BYTES = 32

export class PortRows {
  readonly #isPublic
  readonly #publish
  readonly #withdraw
  readonly #listPublic
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
    this.#isPublic = db.prepare<[string, number], { port: number }>(
      "SELECT port FROM ports WHERE sandbox_id = ? AND port = ? AND access = 'public'",
    )
    this.#publish = db.prepare<[string, number]>(
      "INSERT OR REPLACE INTO ports (sandbox_id, port, access) VALUES (?, ?, 'public')",
    )
    this.#withdraw = db.prepare<[string, number]>('DELETE FROM ports WHERE sandbox_id = ? AND port = ?')
    this.#listPublic = db.prepare<[string], { port: number }>(
      "SELECT port FROM ports WHERE sandbox_id = ? AND access = 'public' ORDER BY port",
    )
  }

  isPublic(sandboxId: SandboxId, port: number): boolean {
    return this.#isPublic.get(sandboxId, port) !== undefined
  }

  publish(sandboxId: SandboxId, port: number): void {
    this.#publish.run(sandboxId, port)
  }

  withdraw(sandboxId: SandboxId, port: number): void {
    this.#withdraw.run(sandboxId, port)
  }

  listPublic(sandboxId: SandboxId): number[] {
    return this.#listPublic.all(sandboxId).map(({ port }) => port)
  }

  /** Created on first use. Links stay valid across restarts. */
  secret(): Uint8Array {
    this.#db
      .prepare<[string, Uint8Array]>('INSERT OR IGNORE INTO secrets (name, value) VALUES (?, ?)')
      .run('port-links', randomBytes(SECRET_BYTES))
    const row = this.#db
      .prepare<[string], { value: Uint8Array }>('SELECT value FROM secrets WHERE name = ?')
      .get('port-links')
    if (row === undefined) throw new Error('the link secret was not stored')
    return row.value
  }
}
