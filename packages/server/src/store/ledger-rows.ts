import type { SandboxId } from '@dormouse/contracts'
import type { DeniedAnswer, LedgerPageAnswer } from '@dormouse/contracts/http'
import type { Database } from './database.ts'
import type { Page } from './page.ts'
import type { Tier } from './sandbox-rows.ts'

export type LedgerEntry = LedgerPageAnswer['items'][number]
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

/** Bounds the ledger of a sandbox that wakes every minute for a year. */
const ENTRIES_KEPT = 10_000
/** What `since` reads at most. */
const SINCE_MAX = 400
/** Long after the caller that woke the sandbox has its answer. */
const COMPLETE_MS = 250

export class LedgerRows implements Disposable {
  readonly #db: Database
  readonly #insert
  readonly #prune
  readonly #complete
  readonly #newest
  readonly #incomplete = new Map<SandboxId, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(db: Database) {
    this.#db = db
    this.#insert = db.prepare<(string | number | null)[]>(
      `INSERT INTO ledger (sandbox_id, seq, at, event, cause, tier, latency_ms, bytes, detail, denied)
       SELECT ?1, coalesce((SELECT max(seq) FROM ledger WHERE sandbox_id = ?1), -1) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9`,
    )
    this.#prune = db.prepare<[string, string, number]>(
      'DELETE FROM ledger WHERE sandbox_id = ? AND seq <= (SELECT max(seq) FROM ledger WHERE sandbox_id = ?) - ?',
    )
    this.#complete = db.prepare<[number, string]>(
      `UPDATE ledger SET latency_ms = ?1 WHERE sandbox_id = ?2 AND latency_ms IS NULL
       AND seq = (SELECT max(seq) FROM ledger WHERE sandbox_id = ?2 AND event = 'woke')`,
    )
    this.#newest = db.prepare<[string, number, number], Pick<StoredEntry, 'event' | 'tier' | 'at'>>(
      `SELECT event, tier, at FROM (SELECT event, tier, at FROM ledger WHERE sandbox_id = ? ORDER BY seq DESC LIMIT ?)
       WHERE at >= ?`,
    )
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#completeAll()
  }

  /**
   * Adds the latency to the last `woke` entry, which was written before the wake began. Written a little later, so
   * that no caller waits for it, but before the next read.
   */
  wakeTook(id: SandboxId, latencyMs: number): void {
    this.#incomplete.set(id, latencyMs)
    this.#timer ??= setTimeout(() => this.#completeAll(), COMPLETE_MS).unref()
  }

  /** Called before another `woke` entry becomes the last one. */
  #completeOne(id: SandboxId): void {
    const latencyMs = this.#incomplete.get(id)
    if (latencyMs === undefined) return
    this.#incomplete.delete(id)
    this.#complete.run(latencyMs, id)
  }

  #completeAll(): void {
    this.#timer = undefined
    if (this.#incomplete.size === 0) return
    try {
      this.#db.transactionWithoutSync(() => {
        for (const [id, latencyMs] of this.#incomplete) this.#complete.run(latencyMs, id)
      })
      this.#incomplete.clear()
    } catch {
      // Probably a full disk. The entries stay for the next attempt; there is at most one per sandbox.
    }
  }

  add(id: SandboxId, at: number, entry: NewLedgerEntry): void {
    const { event, cause, tier, latencyMs, bytes, detail, denied } = entry
    if (event === 'woke') this.#completeOne(id)
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
    // Not during a wake, which is urgent: the entry of the next standby prunes.
    if (event !== 'woke') this.#prune.run(id, id, ENTRIES_KEPT)
  }

  /** The newest entries since this time, oldest first, without their details. */
  since(id: SandboxId, fromMs: number): Pick<LedgerEntry, 'event' | 'tier' | 'at'>[] {
    const rows = this.#newest.all(id, SINCE_MAX, fromMs)
    return rows.reverse().map(({ event, tier, at }) => ({
      event,
      at: new Date(at).toISOString(),
      ...(tier !== null && { tier }),
    }))
  }

  /** Oldest first; the cursor is the `seq` of the last one. */
  list(id: SandboxId, { after = -1, limit }: { after?: number; limit: number }): Page<LedgerEntry> {
    if (this.#incomplete.has(id)) this.#completeAll()
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
    ...(row.denied !== null && { denied: JSON.parse(row.denied) as DeniedAnswer }),
  }
}
