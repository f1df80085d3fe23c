import {
  type BurrowId,
  DormouseError,
  type Isolation,
  type SandboxId,
  type SandboxState,
  type SnapshotId,
  type VolumeId,
} from '@dormouse/contracts'
import type { listSandboxesQuery, SandboxAnswer } from '@dormouse/contracts/http'
import type { ProgramSettings } from '@dormouse/engine'
import type { z } from 'zod'
import type { Database } from './database.ts'
import { newestPage } from './newest-page.ts'
import type { Page } from './page.ts'
import { SharedValues } from './shared-values.ts'
import { isUniqueViolation } from './sqlite-error.ts'

export type Tier = NonNullable<SandboxAnswer['tier']>
export type Expiry = NonNullable<SandboxAnswer['expires']>
export type SandboxLimits = SandboxAnswer['limits']
export type VolumeMount = SandboxAnswer['volumes'][number]
export type NetworkPolicy = Pick<SandboxAnswer['network'], 'mode' | 'allow' | 'deny'>
export type SandboxQuery = z.output<typeof listSandboxesQuery>

/** A mount, with the volume that its name stood for when the sandbox was created. */
export interface MountedVolume extends VolumeMount {
  readonly volumeId: VolumeId
}

/** The fields of a row that its owner may change. */
export type SandboxPolicy = Pick<
  SandboxRow,
  | 'name'
  | 'metadata'
  | 'idleTimeoutMs'
  | 'storeAfterMs'
  | 'maxBackgroundMs'
  | 'wakeOnTimer'
  | 'atMemoryLimit'
  | 'checkpointEveryMs'
  | 'connections'
  | 'expires'
  | 'ephemeral'
  | 'network'
  | 'secrets'
>

/** What a caller asks for. */
export interface CreateSandbox extends SandboxPolicy {
  readonly template: string
  /** Default: that of the snapshot, or of the server. */
  readonly isolation?: Isolation | undefined
  /** The id of a snapshot of the same owner to start from. It decides the template. */
  readonly snapshotId?: SnapshotId | undefined
  readonly env: Readonly<Record<string, string>>
  readonly limits: SandboxLimits
  readonly volumes: readonly VolumeMount[]
  /** With a name: returns the existing sandbox of that name instead of throwing. */
  readonly getOrCreate?: boolean
}

/** For callers that must know the id before the sandbox exists, or that start from a snapshot instead of a template. */
export interface SandboxOrigin {
  readonly id?: SandboxId | undefined
  readonly from?: SnapshotId | undefined
  /** How programs start, when `from` is a snapshot of files. */
  readonly image?: ProgramSettings | undefined
}

/** A sandbox as it is on disk. */
export interface SandboxRow {
  readonly id: SandboxId
  readonly owner: string
  readonly name: string | undefined
  readonly template: string
  readonly isolation: Isolation
  readonly state: SandboxState
  readonly tier: Tier | undefined
  readonly head: SnapshotId | undefined
  /** The sandbox that the head was taken of: this one, or one that a fork, a rollback or a promotion names. */
  readonly headOf: SandboxId | undefined
  /** Its burrow, running or frozen. */
  readonly burrow: BurrowId | undefined
  readonly forkedFrom: SandboxId | undefined
  readonly env: Readonly<Record<string, string>>
  readonly limits: SandboxLimits
  readonly volumes: readonly MountedVolume[]
  readonly metadata: Readonly<Record<string, string>>
  readonly idleTimeoutMs: number
  readonly storeAfterMs: number
  /** How long background processes keep it awake after the last call or run. */
  readonly maxBackgroundMs: number
  /** Whether it wakes for the earliest timer of its processes. */
  readonly wakeOnTimer: boolean
  /** What happens when it reaches its memory limit. */
  readonly atMemoryLimit: SandboxAnswer['atMemoryLimit']
  /** How often it is saved while it runs. 0: never. */
  readonly checkpointEveryMs: number
  /** What happens to connections to the outside while it sleeps. */
  readonly connections: SandboxAnswer['connections']
  readonly expires: Expiry | undefined
  readonly ephemeral: boolean
  readonly network: NetworkPolicy
  readonly secrets: readonly string[]
  readonly createdAt: number
  readonly lastActiveAt: number
  readonly stateSince: number
  readonly lostSince: number | undefined
  /** When a timer wakes it, while it sleeps. */
  readonly wakesAt: number | undefined
  /** Measured disk use, if it was over its limits. */
  readonly diskBytes: number | undefined
  readonly diskFiles: number | undefined
  /** The memory limit at which it was paused. It wakes when its limit is higher. */
  readonly pausedAtBytes: number | undefined
}

type Stored = string | number | null
type StoredRow = Record<string, Stored>

const COLUMNS = [
  ['id', 'id'],
  ['owner', 'owner'],
  ['name', 'name'],
  ['template', 'template'],
  ['isolation', 'isolation'],
  ['state', 'state'],
  ['tier', 'tier'],
  ['head', 'head'],
  ['headOf', 'head_of'],
  ['burrow', 'burrow'],
  ['forkedFrom', 'forked_from'],
  ['env', 'env'],
  ['limits', 'limits'],
  ['volumes', 'volumes'],
  ['metadata', 'metadata'],
  ['idleTimeoutMs', 'idle_timeout_ms'],
  ['storeAfterMs', 'store_after_ms'],
  ['maxBackgroundMs', 'max_background_ms'],
  ['wakeOnTimer', 'wake_on_timer'],
  ['atMemoryLimit', 'at_memory_limit'],
  ['checkpointEveryMs', 'checkpoint_every_ms'],
  ['connections', 'connections'],
  ['expires', 'expires'],
  ['ephemeral', 'ephemeral'],
  ['network', 'network'],
  ['secrets', 'secrets'],
  ['createdAt', 'created_at'],
  ['lastActiveAt', 'last_active_at'],
  ['stateSince', 'state_since'],
  ['lostSince', 'lost_since'],
  ['wakesAt', 'wakes_at'],
  ['diskBytes', 'disk_bytes'],
  ['diskFiles', 'disk_files'],
  ['pausedAtBytes', 'paused_at_bytes'],
] as const satisfies readonly (readonly [keyof SandboxRow, string])[]
/** The columns that sleeping and waking change. No index has them. */
const MOVING = [
  'state',
  'tier',
  'burrow',
  'lastActiveAt',
  'stateSince',
  'lostSince',
  'wakesAt',
  'diskBytes',
  'diskFiles',
  'pausedAtBytes',
] as const
const LASTING = COLUMNS.map(([field]) => field).filter((field) => !MOVING.some((moving) => moving === field))
const JSON_FIELDS: ReadonlySet<string> = new Set([
  'env',
  'limits',
  'volumes',
  'metadata',
  'expires',
  'network',
  'connections',
  'secrets',
])

/** Thousands of rows have the same text in these. */
const SHARED_FIELDS: ReadonlySet<string> = new Set([
  ...['owner', 'template', 'isolation', 'state', 'tier', 'forkedFrom', 'atMemoryLimit'],
])
const SHARED_VALUES = new SharedValues()

const BOOLEAN_FIELDS: ReadonlySet<string> = new Set(['ephemeral', 'wakeOnTimer'])

/** A key of the metadata, and its value. */
const HAS_LABEL = 'EXISTS (SELECT 1 FROM json_each(metadata) AS m WHERE m.key = ? AND m.value = ?)'

export class SandboxRows {
  readonly #db: Database
  readonly #put
  readonly #move

  constructor(db: Database) {
    this.#db = db
    const names = COLUMNS.map(([, column]) => column)
    const changes = names.slice(1).map((column) => `${column} = excluded.${column}`)
    // Not REPLACE, which would first delete the row and all rows that refer to it.
    this.#put = db.prepare<Stored[]>(
      `INSERT INTO sandboxes (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})
       ON CONFLICT (id) DO UPDATE SET ${changes.join(', ')}`,
    )
    const moves = MOVING.map((field) => `${COLUMNS.find(([name]) => name === field)?.[1]} = ?`)
    this.#move = db.prepare<Stored[]>(`UPDATE sandboxes SET ${moves.join(', ')} WHERE id = ?`)
  }

  /** `before`: the row as it was last written, if it was. */
  put(row: SandboxRow, before?: SandboxRow): void {
    if (before !== undefined && LASTING.every((field) => row[field] === before[field])) {
      const { changes } = this.#move.run(...MOVING.map((field) => toStored(field, row[field])), row.id)
      if (changes > 0) return
    }
    try {
      this.#put.run(...COLUMNS.map(([field]) => toStored(field, row[field])))
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new DormouseError('name_taken', `There is already a sandbox named "${row.name}".`)
    }
  }

  /** Sets the policy of sandboxes of versions without networks. */
  settleNetwork(policy: NetworkPolicy): void {
    this.#db
      .prepare<[string]>('UPDATE sandboxes SET network = ? WHERE network IS NULL')
      .run(JSON.stringify(policy))
  }

  all(): SandboxRow[] {
    return this.#db.prepare<[], StoredRow>('SELECT * FROM sandboxes ORDER BY created_at, id').all().map(toRow)
  }

  delete(id: SandboxId): void {
    this.#db.prepare<[string]>('DELETE FROM sandboxes WHERE id = ?').run(id)
  }

  /** Newest first. Without `owner`: of all owners. */
  list(query: SandboxQuery, owner: string | undefined): Page<SandboxRow> {
    const { state, template, name, metadata = {} } = query
    const labels = Object.entries(metadata)
    const page = newestPage<StoredRow & { id: string; created_at: number }>(
      this.#db,
      {
        table: 'sandboxes',
        matching: { owner, state, template, name },
        where: ["state <> 'deleting'", ...labels.map(() => HAS_LABEL)],
        values: labels.flat(),
      },
      query,
    )
    return { ...page, items: page.items.map(toRow) }
  }
}

function toStored(field: string, value: unknown): Stored {
  if (value === undefined) return null
  if (JSON_FIELDS.has(field)) return JSON.stringify(value)
  if (typeof value === 'boolean') return Number(value)
  return value as string | number
}

function toRow(stored: StoredRow): SandboxRow {
  const row: Record<string, unknown> = {}
  for (const [field, column] of COLUMNS) {
    const value = stored[column]
    if (value === null || value === undefined) row[field] = undefined
    else if (JSON_FIELDS.has(field)) row[field] = SHARED_VALUES.parse(String(value))
    else if (SHARED_FIELDS.has(field)) row[field] = SHARED_VALUES.text(String(value))
    else row[field] = BOOLEAN_FIELDS.has(field) ? value === 1 : value
  }
  return row as unknown as SandboxRow
}
