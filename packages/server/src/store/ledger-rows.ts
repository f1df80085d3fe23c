import type { SandboxId } from '@dormouse/contracts'
import type { Denied, LedgerEntry, Page, Tier } from '../lifecycle/service.ts'
import type { Database } from './database.ts'

export type NewLedgerEntry = Omit<LedgerEntry, 'seq' | 'at'>

interface StoredEntry {
  seq: number
  at: number
  event: LedgerEntry['event']
  cause: string
  tier: Tier | null
  latency_ms: number | null
  bytes: number | null
  detail: string | null
  denied: string | null
}

/** A sandbox that wakes every minute for a year still has a ledger that can be read. */
const ENTRIES_KEPT = 10_000

export class LedgerRows {
  readonly #db: Database
  readonly #insert
  readonly #prune

  constructor(db: Database) {
    this.#db = db
    this.#insert = db.prepare<(string | number | null)[]>(
      `INSERT INTO ledger (sandbox_id, seq, at, event, cause, tier, latency_ms, bytes, detail, denied)
       SELECT ?1, coalesce((SELECT max(seq) FROM ledger WHERE sandbox_id = ?1), -1) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9`,
    )
    this.#prune = db.prepare<[string, string, number]>(
      'DELETE FROM ledger WHERE sandbox_id = ? AND seq <= (SELECT max(seq) FROM ledger WHERE sandbox_id = ?) - ?',
    )
  }

  add(id: SandboxId, at: number, entry: NewLedgerEntry): void {
    const { event, cause, tier, latencyMs, bytes, detail, denied } = entry
    this.#insert.run(
      id,
      at,
      event,
      cause,
      tier ?? null,
      latencyMs ?? null,
      bytes === undefined ? null : Math.round(bytes),
      detail ?? null,
      denied === undefined ? null : JSON.stringify(denied),
    )
    this.#prune.run(id, id, ENTRIES_KEPT)
  }

  /** Oldest first; the cursor is the `seq` of the last one. */
  list(id: SandboxId, { after = -1, limit }: { after?: number; limit: number }): Page<LedgerEntry> {
    const rows = this.#db
      .prepare<[string, number, number], StoredEntry>(
        'SELECT * FROM ledger WHERE sandbox_id = ? AND seq > ? ORDER BY seq LIMIT ?',
      )
      .all(id, after, limit + 1)
    const items = rows.slice(0, limit).map(toEntry)
    return { items, nextCursor: rows.length > limit ? String(items.at(-1)?.seq) : undefined }
  }
}

function toEntry(row: StoredEntry): LedgerEntry {
  return {
    seq: row.seq,
    at: new Date(row.at).toISOString(),
    event: row.event,
    cause: row.cause,
    ...(row.tier !== null && { tier: row.tier }),
    ...(row.latency_ms !== null && { latencyMs: row.latency_ms }),
    ...(row.bytes !== null && { bytes: row.bytes }),
    ...(row.detail !== null && { detail: row.detail }),
    ...(row.denied !== null && { denied: JSON.parse(row.denied) as Denied }),
  }
}
