import type { Database } from '../store/database.ts'

/** What is added up. Byte-milliseconds, so that a gigabyte held for a moment counts, too. */
export interface UsageAmounts {
  runningMs: number
  cpuMs: number
  memoryByteMs: number
  storedByteMs: number
  reservedCpuMs: number
  reservedMemoryByteMs: number
  wakes: number
  forks: number
  savedTokens: number
}

export interface UsageOf {
  /** Since the epoch. */
  readonly hour: number
  readonly sandboxId: string
  readonly owner: string
  readonly name: string | undefined
}

export function noUsage(): UsageAmounts {
  return {
    runningMs: 0,
    cpuMs: 0,
    memoryByteMs: 0,
    storedByteMs: 0,
    reservedCpuMs: 0,
    reservedMemoryByteMs: 0,
    wakes: 0,
    forks: 0,
    savedTokens: 0,
  }
}

interface StoredSum {
  sandbox_id: string
  owner: string
  name: string | null
  running_ms: number
  cpu_ms: number
  memory_byte_ms: number
  stored_byte_ms: number
  reserved_cpu_ms: number
  reserved_memory_byte_ms: number
  wakes: number
  forks: number
  saved_tokens: number
}

/** A run that is not counted yet. */
export interface UncountedRun {
  readonly id: number
  readonly sandboxId: string
  readonly startedAt: number
  /** Characters of the code of earlier runs in its context, as far as the journal keeps it. */
  readonly charactersBefore: number
}

const AMOUNTS = [
  'running_ms',
  'cpu_ms',
  'memory_byte_ms',
  'stored_byte_ms',
  'reserved_cpu_ms',
  'reserved_memory_byte_ms',
  'wakes',
  'forks',
  'saved_tokens',
]

export class UsageRows {
  readonly #db: Database
  readonly #add
  readonly #sum
  readonly #clock
  readonly #setClock
  readonly #uncounted

  constructor(db: Database) {
    this.#db = db
    const added = AMOUNTS.map((column) => `${column} = ${column} + excluded.${column}`).join(', ')
    this.#add = db.prepare<(string | number | null)[]>(
      `INSERT INTO usage (hour, sandbox_id, owner, name, ${AMOUNTS.join(', ')})
       VALUES (?, ?, ?, ?, ${AMOUNTS.map(() => '?').join(', ')})
       ON CONFLICT (hour, sandbox_id) DO UPDATE SET name = excluded.name, ${added}`,
    )
    this.#sum = db.prepare<(string | number | null)[], StoredSum>(
      `SELECT sandbox_id, max(owner) AS owner, max(name) AS name, ${AMOUNTS.map((column) => `sum(${column}) AS ${column}`).join(', ')}
       FROM usage WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR owner = ?3) AND (?4 IS NULL OR sandbox_id = ?4)
       GROUP BY sandbox_id ORDER BY sandbox_id`,
    )
    this.#clock = db.prepare<[], { counted_until: number; counted_run: number; recorded_at: number | null }>(
      'SELECT counted_until, counted_run, recorded_at FROM usage_clock',
    )
    this.#setClock = db.prepare<[number, number, number]>(
      'INSERT OR REPLACE INTO usage_clock (id, counted_until, counted_run, recorded_at) VALUES (1, ?, ?, ?)',
    )
    this.#uncounted = db.prepare<[number, number], UncountedRun>(
      `SELECT id, sandbox_id AS sandboxId, started_at AS startedAt,
         (SELECT coalesce(sum(length(earlier.code)), 0) FROM runs earlier
          WHERE earlier.sandbox_id = runs.sandbox_id AND earlier.context = runs.context AND earlier.id < runs.id
         ) AS charactersBefore
       FROM runs WHERE id > ? ORDER BY id LIMIT ?`,
    )
  }

  get countedUntil(): number | undefined {
    return this.#clock.get()?.counted_until
  }

  /** When a server last wrote here. Undefined: there was none. */
  get recordedAt(): number | undefined {
    const clock = this.#clock.get()
    return clock?.recorded_at ?? clock?.counted_until
  }

  /** The last run that is counted. */
  get countedRun(): number {
    return this.#clock.get()?.counted_run ?? 0
  }

  /** Oldest first. */
  uncountedRuns(after: number, limit: number): UncountedRun[] {
    return this.#uncounted.all(after, limit)
  }

  /** Adds usage, and records up to which time and which run everything is counted, and when that was. */
  add(
    { countedUntil, countedRun, recordedAt }: Record<'countedUntil' | 'countedRun' | 'recordedAt', number>,
    amounts: Iterable<readonly [UsageOf, UsageAmounts]>,
  ): void {
    this.#db.transaction(() => {
      for (const [{ hour, sandboxId, owner, name }, used] of amounts) {
        this.#add.run(
          hour,
          sandboxId,
          owner,
          name ?? null,
          used.runningMs,
          used.cpuMs,
          used.memoryByteMs,
          used.storedByteMs,
          used.reservedCpuMs,
          used.reservedMemoryByteMs,
          used.wakes,
          used.forks,
          used.savedTokens,
        )
      }
      this.#setClock.run(countedUntil, countedRun, recordedAt)
    })
  }

  /** Usage of the hours from `fromHour` to `toHour`, exclusive. */
  sum(query: {
    fromHour: number
    toHour: number
    owner: string | undefined
    sandboxId: string | undefined
  }): (UsageAmounts & { sandboxId: string; owner: string; name: string | undefined })[] {
    const { fromHour, toHour, owner = null, sandboxId = null } = query
    return this.#sum.all(fromHour, toHour, owner, sandboxId).map((row) => ({
      sandboxId: row.sandbox_id,
      owner: row.owner,
      name: row.name ?? undefined,
      runningMs: row.running_ms,
      cpuMs: row.cpu_ms,
      memoryByteMs: row.memory_byte_ms,
      storedByteMs: row.stored_byte_ms,
      reservedCpuMs: row.reserved_cpu_ms,
      reservedMemoryByteMs: row.reserved_memory_byte_ms,
      wakes: row.wakes,
      forks: row.forks,
      savedTokens: row.saved_tokens,
    }))
  }
}
