import { DormouseError, type SandboxId, type ServiceId, type SnapshotId } from '@dormouse/contracts'
import type { DeployServiceRequest, ServiceAnswer, ServiceVersionAnswer } from '@dormouse/contracts/http'
import type { Database } from '../store/database.ts'
import { newestPage } from '../store/newest-page.ts'
import type { Page } from '../store/page.ts'
import { isUniqueViolation } from '../store/sqlite-error.ts'

/** What may change without a new version. */
export interface ServiceSettings {
  readonly public: boolean
  readonly replicas: Omit<ServiceAnswer['replicas'], 'items'>
  readonly health: ServiceAnswer['health']
  readonly restart: ServiceAnswer['restart']
  readonly keepVersions: number
  /** Absent in rows of earlier versions, which had none. */
  readonly checkpointEveryMs?: number
}

export interface ServiceRow {
  readonly id: ServiceId
  readonly owner: string
  readonly name: string
  readonly state: 'active' | 'deleting'
  readonly createdAt: number
  readonly current: number | undefined
  readonly settings: ServiceSettings
}

/** How replicas of a version are made, and how their program starts. */
export type VersionPlan = Pick<
  DeployServiceRequest,
  | 'port'
  | 'template'
  | 'isolation'
  | 'env'
  | 'secrets'
  | 'volumes'
  | 'limits'
  | 'network'
  | 'ready'
  | 'cwd'
  | 'user'
> & {
  /** Undefined: the program is part of the template, or the image names it. */
  readonly start: string | undefined
}

/** The program of a version, and its state in the snapshot. */
export interface ReadyState {
  readonly snapshotId: SnapshotId
  readonly program: Program | undefined
  /** The last event of the process that is in the snapshot. */
  readonly eventSeq: number
}

export interface Program {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly user: string
  readonly processId: string
}

export interface VersionRow {
  readonly serviceId: ServiceId
  readonly version: number
  readonly state: ServiceVersionAnswer['state']
  readonly createdAt: number
  readonly plan: VersionPlan
  readonly builtTemplate: string | undefined
  readonly ready: ReadyState | undefined
  readonly error: string | undefined
}

export interface ReplicaRow {
  readonly sandboxId: SandboxId
  readonly serviceId: ServiceId
  readonly version: number
  readonly isReady: boolean
  readonly processIds: readonly string[]
  readonly restarts: number
  readonly createdAt: number
}

interface StoredService {
  id: ServiceId
  owner: string
  name: string
  state: ServiceRow['state']
  created_at: number
  current: number | null
  settings: string
}

interface StoredVersion {
  service_id: ServiceId
  version: number
  state: VersionRow['state']
  created_at: number
  plan: string
  built_template: string | null
  ready: string | null
  error: string | null
}

interface StoredReplica {
  sandbox_id: SandboxId
  service_id: ServiceId
  version: number
  is_ready: 0 | 1
  process_ids: string
  restarts: number
  created_at: number
}

/** All rows of one service. */
export interface ServiceState {
  readonly service: ServiceRow
  /** Newest first. */
  readonly versions: readonly VersionRow[]
  readonly replicas: readonly ReplicaRow[]
}

export class ServiceRows {
  readonly #db: Database
  /** Called after each change of the rows of a service. */
  onChange: (id: ServiceId) => void = () => {}

  constructor(db: Database) {
    this.#db = db
  }

  add(row: ServiceRow): void {
    try {
      this.#db
        .prepare<[string, string, string, string, number, string]>(
          'INSERT INTO services (id, owner, name, state, created_at, settings) VALUES (?, ?, ?, ?, ?, ?)',
        )
        .run(row.id, row.owner, row.name, row.state, row.createdAt, JSON.stringify(row.settings))
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new DormouseError('name_taken', `There is already a service named "${row.name}".`)
    }
  }

  /** Everything that another host needs to continue the service. */
  stateOf(id: ServiceId): ServiceState | undefined {
    const stored = this.#db.prepare<[string], StoredService>('SELECT * FROM services WHERE id = ?').get(id)
    if (stored === undefined) return undefined
    return { service: toService(stored), versions: this.versions(id), replicas: this.replicas(id) }
  }

  /** Takes over what another host has written. */
  import({ service, versions, replicas }: ServiceState): void {
    this.#db.transaction(() => {
      this.delete(service.id)
      this.add(service)
      this.put(service)
      for (const version of versions) this.putVersion(version)
      for (const replica of replicas) this.putReplica(replica)
    })
  }

  put({ id, state, current, settings }: ServiceRow): void {
    this.#db
      .prepare<[string, number | null, string, string]>(
        'UPDATE services SET state = ?, current = ?, settings = ? WHERE id = ?',
      )
      .run(state, current ?? null, JSON.stringify(settings), id)
    this.onChange(id)
  }

  all(): ServiceRow[] {
    return this.#db.prepare<[], StoredService>('SELECT * FROM services').all().map(toService)
  }

  list(query: { limit: number; cursor?: string }, owner: string | undefined): Page<ServiceRow> {
    const matching = { owner, state: 'active' }
    const page = newestPage<StoredService>(this.#db, { table: 'services', matching }, query)
    return { ...page, items: page.items.map(toService) }
  }

  delete(id: ServiceId): void {
    this.#db.transaction(() => {
      for (const table of ['service_versions', 'service_replicas', 'service_sessions'])
        this.#db.prepare<[string]>(`DELETE FROM ${table} WHERE service_id = ?`).run(id)
      this.#db.prepare<[string]>('DELETE FROM services WHERE id = ?').run(id)
    })
  }

  putVersion(row: VersionRow): void {
    this.#db
      .prepare<(string | number | null)[]>(
        `INSERT OR REPLACE INTO service_versions (service_id, version, state, created_at, plan, built_template, ready, error)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        ...([row.serviceId, row.version, row.state, row.createdAt, JSON.stringify(row.plan)] as const),
        ...([
          row.builtTemplate ?? null,
          row.ready ? JSON.stringify(row.ready) : null,
          row.error ?? null,
        ] as const),
      )
    this.onChange(row.serviceId)
  }

  /** Newest first. */
  versions(id: ServiceId): VersionRow[] {
    return this.#db
      .prepare<[string], StoredVersion>(
        'SELECT * FROM service_versions WHERE service_id = ? ORDER BY version DESC',
      )
      .all(id)
      .map(toVersion)
  }

  deleteVersion({ serviceId, version }: VersionRow): void {
    this.#db
      .prepare<[string, number]>('DELETE FROM service_versions WHERE service_id = ? AND version = ?')
      .run(serviceId, version)
    this.onChange(serviceId)
  }

  putReplica(row: ReplicaRow): void {
    this.#db
      .prepare<(string | number)[]>(
        `INSERT OR REPLACE INTO service_replicas (sandbox_id, service_id, version, is_ready, process_ids, restarts, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        ...([row.sandboxId, row.serviceId, row.version, row.isReady ? 1 : 0] as const),
        ...([JSON.stringify(row.processIds), row.restarts, row.createdAt] as const),
      )
    this.onChange(row.serviceId)
  }

  /** Oldest first. */
  replicas(id: ServiceId): ReplicaRow[] {
    return this.#db
      .prepare<[string], StoredReplica>(
        'SELECT * FROM service_replicas WHERE service_id = ? ORDER BY created_at, sandbox_id',
      )
      .all(id)
      .map(toReplica)
  }

  deleteReplica(sandboxId: SandboxId): void {
    const of = this.#db
      .prepare<[string], { service_id: ServiceId }>(
        'SELECT service_id FROM service_replicas WHERE sandbox_id = ?',
      )
      .get(sandboxId)
    this.#db.transaction(() => {
      this.#db.prepare<[string]>('DELETE FROM service_sessions WHERE sandbox_id = ?').run(sandboxId)
      this.#db.prepare<[string]>('DELETE FROM service_replicas WHERE sandbox_id = ?').run(sandboxId)
    })
    if (of !== undefined) this.onChange(of.service_id)
  }
}

function toService({ created_at: createdAt, current, settings, ...row }: StoredService): ServiceRow {
  return { ...row, createdAt, current: current ?? undefined, settings: JSON.parse(settings) }
}

function toVersion(row: StoredVersion): VersionRow {
  return {
    ...{ serviceId: row.service_id, version: row.version, state: row.state, createdAt: row.created_at },
    plan: JSON.parse(row.plan),
    builtTemplate: row.built_template ?? undefined,
    ready: row.ready === null ? undefined : JSON.parse(row.ready),
    error: row.error ?? undefined,
  }
}

function toReplica(row: StoredReplica): ReplicaRow {
  return {
    ...{ sandboxId: row.sandbox_id, serviceId: row.service_id, version: row.version },
    ...{ isReady: row.is_ready === 1, restarts: row.restarts, createdAt: row.created_at },
    processIds: JSON.parse(row.process_ids),
  }
}
