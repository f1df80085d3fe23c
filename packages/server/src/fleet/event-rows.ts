import type { SandboxId } from '@dormouse/contracts'
import { KEPT_EVENT_TYPES, type ServerEventAnswer } from '@dormouse/contracts/http'
import type { Database } from '../store/database.ts'
import type { SqlValue } from '../store/statement.ts'

/** An event as it is on disk. */
export interface StoredEvent {
  readonly seq: number
  readonly type: Exclude<ServerEventAnswer['type'], 'gap'>
  readonly owner: string | undefined
  readonly sandboxId: SandboxId | undefined
  readonly atMs: number
  readonly data: Record<string, unknown>
}

interface EventRow {
  readonly seq: number
  readonly type: StoredEvent['type']
  readonly owner: string | null
  readonly sandbox_id: SandboxId | null
  readonly at: number
  readonly data: string
}

/** Changes of a sandbox's view and samples are not kept: a reader that comes back reads the lists. */
const KEPT: ReadonlySet<string> = new Set(KEPT_EVENT_TYPES)
/** How many events are kept on disk. About 400 bytes each. */
const ROWS_MAX = 10_000
/** Old rows are deleted once for so many new ones. */
const PRUNE_EVERY = 500

/** The table `events`. */
export class EventRows {
  readonly #db: Database
  #sincePrune = PRUNE_EVERY
  #completeAfterSeq: number

  constructor(db: Database) {
    this.#db = db
    // With fewer rows, none was ever deleted.
    this.#completeAfterSeq = this.#newestBehind(ROWS_MAX - 1) ?? 0
  }

  /** No row after this one was deleted. */
  get completeAfterSeq(): number {
    return this.#completeAfterSeq
  }

  isKept(type: string): boolean {
    return KEPT.has(type)
  }

  /** Writes events and, in the same transaction, what follows from them. Survives `kill -9`, perhaps not a power cut. */
  append(events: readonly StoredEvent[], inTransaction?: (event: StoredEvent) => void): void {
    this.#db.transactionWithoutSync(() => {
      const insert = this.#db.prepare<SqlValue[]>(
        'INSERT OR IGNORE INTO events (seq, type, owner, sandbox_id, at, data) VALUES (?, ?, ?, ?, ?, ?)',
      )
      for (const event of events) {
        const { seq, type, owner, sandboxId, atMs, data } = event
        insert.run(seq, type, owner ?? null, sandboxId ?? null, atMs, JSON.stringify(data))
        inTransaction?.(event)
      }
      this.#sincePrune += events.length
      if (this.#sincePrune >= PRUNE_EVERY) this.#prune()
    })
  }

  has(seq: number): boolean {
    return this.#db.prepare<[number], object>('SELECT 1 FROM events WHERE seq = ?').get(seq) !== undefined
  }

  /** Forgets events of another order: those of a server before it joined its cluster. */
  keepBetween({ baseSeq, lastSeq }: { baseSeq: number; lastSeq: number }): void {
    this.#db.prepare<[number, number]>('DELETE FROM events WHERE seq <= ? OR seq > ?').run(baseSeq, lastSeq)
  }

  /** Events with `afterSeq < seq <= untilSeq`, oldest first. */
  between(afterSeq: number, { untilSeq, limit }: { untilSeq: number; limit: number }): StoredEvent[] {
    return this.#db
      .prepare<[number, number, number], EventRow>(
        'SELECT * FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?',
      )
      .all(afterSeq, untilSeq, limit)
      .map(({ seq, type, owner, sandbox_id: sandboxId, at: atMs, data }) => ({
        ...{ seq, type, atMs, owner: owner ?? undefined, sandboxId: sandboxId ?? undefined },
        data: JSON.parse(data) as Record<string, unknown>,
      }))
  }

  /** Undefined: there is none. */
  newestSeq(): number | undefined {
    return this.#db.prepare<[], { seq: number }>('SELECT seq FROM events ORDER BY seq DESC LIMIT 1').get()
      ?.seq
  }

  #prune(): void {
    this.#sincePrune = 0
    const newestOld = this.#newestBehind(ROWS_MAX)
    if (newestOld === undefined) return
    this.#db.prepare<[number]>('DELETE FROM events WHERE seq <= ?').run(newestOld)
    this.#completeAfterSeq = newestOld
  }

  /** The newest event that has `count` newer ones. */
  #newestBehind(count: number): number | undefined {
    return this.#db
      .prepare<[number], { seq: number }>('SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?')
      .get(count)?.seq
  }
}
