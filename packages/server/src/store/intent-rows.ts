import type { SandboxId } from '@dormouse/contracts'
import type { Database } from './database.ts'

/** What a transition is about to do. Recovery finishes or undoes it. */
export type IntentKind =
  | 'create'
  | 'standby'
  | 'store'
  | 'wake'
  | 'fork'
  | 'snapshot'
  | 'rollback'
  | 'change'
  | 'delete'

export interface Intent {
  readonly sandboxId: SandboxId
  readonly kind: IntentKind
  readonly since: number
}

export class IntentRows {
  readonly #put
  readonly #delete
  readonly #all

  constructor(db: Database) {
    this.#put = db.prepare<[string, string, number]>(
      'INSERT OR REPLACE INTO intents (sandbox_id, kind, since) VALUES (?, ?, ?)',
    )
    this.#delete = db.prepare<[string]>('DELETE FROM intents WHERE sandbox_id = ?')
    this.#all = db.prepare<[], { sandbox_id: SandboxId; kind: IntentKind; since: number }>(
      'SELECT * FROM intents',
    )
  }

  begin(sandboxId: SandboxId, kind: IntentKind, since: number): void {
    this.#put.run(sandboxId, kind, since)
  }

  end(sandboxId: SandboxId): void {
    this.#delete.run(sandboxId)
  }

  all(): Intent[] {
    return this.#all.all().map(({ sandbox_id, kind, since }) => ({ sandboxId: sandbox_id, kind, since }))
  }
}
