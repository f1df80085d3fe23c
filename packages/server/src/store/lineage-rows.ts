import type { SandboxId } from '@dormouse/contracts'
import type { Database } from './database.ts'

/** Which sandbox each sandbox was forked from, also after either was deleted. */
export class LineageRows {
  readonly #db: Database
  readonly #parent

  constructor(db: Database) {
    this.#db = db
    this.#parent = db.prepare<[string], { forked_from: SandboxId }>(
      'SELECT forked_from FROM lineage WHERE sandbox_id = ?',
    )
  }

  parentOf(sandboxId: SandboxId): SandboxId | undefined {
    return this.#parent.get(sandboxId)?.forked_from
  }

  /** What it was forked from, and that in turn. Nearest first. */
  ancestorsOf(sandboxId: SandboxId): SandboxId[] {
    const ancestors: SandboxId[] = []
    for (
      let at = this.parentOf(sandboxId);
      at !== undefined && !ancestors.includes(at);
      at = this.parentOf(at)
    )
      ancestors.push(at)
    return ancestors
  }

  put(sandboxId: SandboxId, forkedFrom: SandboxId): void {
    this.#db
      .prepare<[string, string]>('INSERT OR REPLACE INTO lineage (sandbox_id, forked_from) VALUES (?, ?)')
      .run(sandboxId, forkedFrom)
  }

  /** One is the other, or was forked from it, at any depth. */
  isRelated(one: SandboxId, other: SandboxId): boolean {
    return one === other || this.#descends(one, other) || this.#descends(other, one)
  }

  /** Forgets a deleted sandbox without forks and snapshots. */
  forget(sandboxId: SandboxId): void {
    this.#db.transactionWithoutSync(() => {
      this.#db
        .prepare<[string, string, string]>(
          `DELETE FROM lineage WHERE sandbox_id = ?
           AND NOT EXISTS (SELECT 1 FROM snapshots WHERE sandbox_id = ?)
           AND NOT EXISTS (SELECT 1 FROM lineage WHERE forked_from = ?)`,
        )
        .run(sandboxId, sandboxId, sandboxId)
    })
  }

  /** Forgets sandboxes that neither exist nor have snapshots nor are on the way to one that does. */
  prune(): void {
    this.#db
      .prepare<[]>(
        `WITH RECURSIVE needed (id) AS (
           SELECT id FROM sandboxes UNION SELECT sandbox_id FROM snapshots
           UNION SELECT forked_from FROM lineage JOIN needed ON lineage.sandbox_id = needed.id
         )
         DELETE FROM lineage WHERE sandbox_id NOT IN (SELECT id FROM needed)`,
      )
      .run()
  }

  #descends(from: SandboxId, ancestor: SandboxId): boolean {
    const seen = new Set<SandboxId>()
    for (let at: SandboxId | undefined = from; at !== undefined && !seen.has(at); ) {
      seen.add(at)
      at = this.#parent.get(at)?.forked_from
      if (at === ancestor) return true
    }
    return false
  }
}
