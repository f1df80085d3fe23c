import type { RateLimit } from '@dormouse/async'
import type { Database } from '../store/database.ts'
import type { Statement } from '../store/statement.ts'
import type { Scope } from './access.ts'
import type { KeyQuotas } from './quotas.ts'

/** A key as stored. */
export interface KeyRecord {
  readonly id: string
  readonly name: string
  readonly digest: Uint8Array
  readonly scopes: readonly Scope[]
  readonly quotas: KeyQuotas
  readonly rateLimit: RateLimit | undefined
  readonly createdAtMs: number
  readonly revokedAtMs: number | undefined
}

type KeyRow = {
  id: string
  name: string
  secret_sha256: Uint8Array
  scopes: string
  max_sandboxes: number | null
  max_running: number | null
  max_memory_bytes: number | null
  max_disk_bytes: number | null
  rate_per_second: number | null
  rate_burst: number | null
  created_at_ms: number
  revoked_at_ms: number | null
  sandbox_memory_bytes: number | null
  sandbox_cpus: number | null
  sandbox_pids: number | null
  sandbox_disk_bytes: number | null
  sandbox_files: number | null
}

export class KeyRows {
  readonly #all: Statement<[], KeyRow>
  readonly #put: Statement<KeyRow, never>

  constructor(database: Database) {
    this.#all = database.prepare('SELECT * FROM keys ORDER BY rowid')
    this.#put =
      database.prepare(`INSERT INTO keys VALUES ($id, $name, $secret_sha256, $scopes, $max_sandboxes, $max_running,
        $max_memory_bytes, $max_disk_bytes, $rate_per_second, $rate_burst, $created_at_ms, $revoked_at_ms,
        $sandbox_memory_bytes, $sandbox_cpus, $sandbox_pids, $sandbox_disk_bytes, $sandbox_files)
      ON CONFLICT (id) DO UPDATE SET name = excluded.name, max_sandboxes = excluded.max_sandboxes,
        max_running = excluded.max_running, max_memory_bytes = excluded.max_memory_bytes,
        max_disk_bytes = excluded.max_disk_bytes, rate_per_second = excluded.rate_per_second,
        rate_burst = excluded.rate_burst, revoked_at_ms = excluded.revoked_at_ms,
        sandbox_memory_bytes = excluded.sandbox_memory_bytes, sandbox_cpus = excluded.sandbox_cpus,
        sandbox_pids = excluded.sandbox_pids, sandbox_disk_bytes = excluded.sandbox_disk_bytes,
        sandbox_files = excluded.sandbox_files`)
  }

  all(): KeyRecord[] {
    return this.#all.all().map(fromRow)
  }

  put(record: KeyRecord): void {
    this.#put.run(toRow(record))
  }
}

function fromRow(row: KeyRow): KeyRecord {
  return {
    id: row.id,
    name: row.name,
    digest: row.secret_sha256,
    scopes: row.scopes.split(' ') as Scope[],
    quotas: {
      sandboxes: row.max_sandboxes ?? undefined,
      running: row.max_running ?? undefined,
      memoryBytes: row.max_memory_bytes ?? undefined,
      diskBytes: row.max_disk_bytes ?? undefined,
      sandboxMemoryBytes: row.sandbox_memory_bytes ?? undefined,
      sandboxCpus: row.sandbox_cpus ?? undefined,
      sandboxPids: row.sandbox_pids ?? undefined,
      sandboxDiskBytes: row.sandbox_disk_bytes ?? undefined,
      sandboxFiles: row.sandbox_files ?? undefined,
    },
    rateLimit:
      row.rate_per_second === null || row.rate_burst === null
        ? undefined
        : { perSecond: row.rate_per_second, burst: row.rate_burst },
    createdAtMs: row.created_at_ms,
    revokedAtMs: row.revoked_at_ms ?? undefined,
  }
}

function toRow({ quotas, rateLimit, ...key }: KeyRecord): KeyRow {
  return {
    id: key.id,
    name: key.name,
    secret_sha256: key.digest,
    scopes: key.scopes.join(' '),
    max_sandboxes: quotas.sandboxes ?? null,
    max_running: quotas.running ?? null,
    max_memory_bytes: quotas.memoryBytes ?? null,
    max_disk_bytes: quotas.diskBytes ?? null,
    rate_per_second: rateLimit?.perSecond ?? null,
    rate_burst: rateLimit?.burst ?? null,
    created_at_ms: key.createdAtMs,
    revoked_at_ms: key.revokedAtMs ?? null,
    sandbox_memory_bytes: quotas.sandboxMemoryBytes ?? null,
    sandbox_cpus: quotas.sandboxCpus ?? null,
    sandbox_pids: quotas.sandboxPids ?? null,
    sandbox_disk_bytes: quotas.sandboxDiskBytes ?? null,
    sandbox_files: quotas.sandboxFiles ?? null,
  }
}
