import { KeyedMutex } from '@dormouse/async'
import {
  DormouseError,
  hasErrorCode,
  newServiceId,
  type SandboxId,
  type ServiceId,
} from '@dormouse/contracts'
import type { DeployServiceRequest, ServiceLogLineAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Log } from '../log.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { Database, SharedDatabase } from '../store/database.ts'
import type { Page } from '../store/page.ts'
import { type DeployServices, deploy } from './deploy.ts'
import type { DeployData, DeployEvent } from './deploy-event.ts'
import type { Deployments, ServiceView } from './deployments.ts'
import { dropOldVersions, dropVersion } from './drop-versions.ts'
import { HealthChecks } from './health-checks.ts'
import { type Lease, LiveService } from './live-service.ts'
import { matchPolicy } from './match-policy.ts'
import { type ReplicaDefaults, replicaRequest } from './replica-request.ts'
import { type ReadLines, ServiceLog } from './service-log.ts'
import type { ServiceOwnership } from './service-ownership.ts'
import type { ServiceRow, ServiceRows, VersionRow } from './service-rows.ts'
import { ServiceSessions } from './service-sessions.ts'
import { DEFAULT_SETTINGS, mergeSettings, type SettingsChange } from './service-settings.ts'
import { viewService } from './view-service.ts'

const SERVICES_PER_OWNER = 1000
const SWEEP_MS = 5_000
const HOW_TO_LIST =
  'Its versions are in the service: `dormouse service show NAME`. Only those that are ready can serve.'
const SERVER_ENDED = 'The server ended before it was deployed. Deploy it again.'

export interface DeploymentServiceOptions extends DeployServices, ReplicaDefaults {
  readonly rows: ServiceRows
  readonly db: Database
  readonly journalDb: SharedDatabase
  readonly sandboxes: Pick<SandboxCalls, 'create' | 'check' | 'get' | 'deleteSnapshot'>
  readonly nowMs: () => number
  readonly log: Log
  readonly onDeploy: (type: DeployEvent, data: DeployData, owner: string) => void
}

/** All services of this server. */
export class DeploymentService implements Deployments, AsyncDisposable {
  readonly #options: DeploymentServiceOptions
  readonly #services = new Map<ServiceId, LiveService>()
  readonly #ofReplica = new Map<SandboxId, LiveService>()
  readonly #deploying = new Map<ServiceId, { readonly stop: AbortController; readonly done: Promise<void> }>()
  /** A rollback and the end of a deployment change the same rows. */
  readonly #changing = new KeyedMutex()
  readonly #checks: HealthChecks
  #ownership: ServiceOwnership | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: DeploymentServiceOptions) {
    this.#options = options
    this.#checks = new HealthChecks(options.log)
  }

  /** Continues what an earlier server left. Pre: all sandboxes are recovered. */
  async open(): Promise<void> {
    for (const row of this.#options.rows.all()) await this.#open(this.#live(row))
    this.#timer = setInterval(() => void this.#sweep(), SWEEP_MS).unref()
  }

  /** Services are the cluster's. Call it before `open`. */
  join(ownership: ServiceOwnership): void {
    this.#ownership = ownership
  }

  has(id: ServiceId): boolean {
    return this.#services.has(id)
  }

  /** Continues a service of another host. Pre: its rows are here. */
  async adopt(row: ServiceRow): Promise<void> {
    if (!this.#services.has(row.id)) await this.#open(this.#live(row))
  }

  /** Another host continues the service. What is left of its replicas here are ordinary sandboxes from then on. */
  evict(id: ServiceId): void {
    const service = this.#services.get(id)
    this.#services.delete(id)
    this.#checks.end(id)
    this.#deploying.get(id)?.stop.abort(new DormouseError('cancelled', 'Another host has the service.'))
    service?.stop()
    for (const [sandboxId, other] of this.#ofReplica) if (other === service) this.#ofReplica.delete(sandboxId)
    this.#options.rows.delete(id)
  }

  async #open(service: LiveService): Promise<void> {
    const { row, versions } = service
    for (const version of versions)
      if (version.state === 'building' || version.state === 'starting') {
        service.putVersion({ ...version, state: 'failed', error: SERVER_ENDED, ready: undefined })
        this.#tell('deploy.failed', service, version.version, SERVER_ENDED)
      }
    const opened = row.state === 'deleting' ? this.#remove(service) : service.open()
    await opened.catch((err: unknown) =>
      this.#options.log.warn({ service: row.id, err }, 'a service could not be opened'),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#checks[Symbol.dispose]()
    for (const { stop } of this.#deploying.values()) stop.abort(new Error(SERVER_ENDED))
    for (const service of this.#services.values()) service.stop()
    await Promise.allSettled([...this.#deploying.values()].map(({ done }) => done))
  }

  get listener(): SandboxListener {
    return {
      awake: (row) => this.#ofReplica.get(row.id)?.awake(row),
      changed: (row, before) => {
        const service = row.state === before.state ? undefined : this.#ofReplica.get(row.id)
        if (service !== undefined && row.state === 'running') this.#checks.follow(service, true)
      },
      deleted: ({ id }) => this.#ofReplica.get(id)?.forget(id),
    }
  }

  async deploy(name: string, request: DeployServiceRequest, caller: Caller): Promise<ServiceView> {
    const plan = planOf(request)
    const asked = { name, owner: caller.keyId, settings: DEFAULT_SETTINGS }
    this.#options.sandboxes.check(replicaRequest(this.#options, asked, { version: 0, plan }), caller)
    const service = this.#findNamed(name, caller.keyId) ?? (await this.#create(name, caller))
    const { id } = service.row
    if (this.#deploying.has(id))
      throw new DormouseError('conflict', `A version of "${name}" is being deployed.`, {
        hint: 'Wait until it is ready or has failed.',
      })
    const version = this.#addVersion(service, plan)
    this.#tell('deploy.started', service, version.version)
    const stop = new AbortController()
    const done = deploy(this.#options, { service, request, version, caller, signal: stop.signal })
      .then(() => this.#tell('deploy.ready', service, version.version))
      .catch((error: unknown) => this.#fail(service, version, error))
      .finally(() => this.#deploying.delete(id))
      .then(() => dropOldVersions(this.#options, service))
    this.#deploying.set(id, { stop, done })
    return viewService(service)
  }

  async #create(name: string, caller: Caller): Promise<LiveService> {
    const { rows, nowMs } = this.#options
    const own = [...this.#services.values()].filter(({ row }) => row.owner === caller.keyId)
    if (own.length >= SERVICES_PER_OWNER)
      throw new DormouseError('limit_reached', `A key may have ${SERVICES_PER_OWNER} services.`)
    const row: ServiceRow = {
      ...{ id: newServiceId(), owner: caller.keyId, name, state: 'active', createdAt: nowMs() },
      ...{ current: undefined, settings: DEFAULT_SETTINGS },
    }
    rows.add(row)
    try {
      await this.#ownership?.claim(row)
    } catch (error) {
      rows.delete(row.id)
      throw error
    }
    return this.#live(row)
  }

  #addVersion(service: LiveService, plan: VersionRow['plan']): VersionRow {
    const version: VersionRow = {
      serviceId: service.row.id,
      version: (service.versions[0]?.version ?? 0) + 1,
      state: 'building',
      createdAt: this.#options.nowMs(),
      plan,
      ...{ builtTemplate: undefined, ready: undefined, error: undefined },
    }
    service.putVersion(version)
    return version
  }

  #tell(type: DeployEvent, { row }: LiveService, version: number, error?: string): void {
    const data = { service: row.name, serviceId: row.id, version, ...(error !== undefined && { error }) }
    this.#options.onDeploy(type, data, row.owner)
  }

  #fail(service: LiveService, { version }: VersionRow, error: unknown): void {
    const { log } = this.#options
    log.warn({ service: service.row.id, version, err: error }, 'a version could not be deployed')
    const row = service.versions.find((other) => other.version === version)
    const isHere = this.#services.get(service.row.id) === service
    if (row === undefined || !isHere) return
    const reason = error instanceof Error ? error.message : String(error)
    try {
      service.putVersion({ ...row, state: 'failed', error: reason.slice(0, 1000) })
      this.#tell('deploy.failed', service, version, reason.slice(0, 1000))
    } catch (cause) {
      // The next start finds it unfinished.
      log.error({ service: service.row.id, err: cause }, 'the end of a deployment could not be recorded')
    }
  }

  list(query: { limit: number; cursor?: string }, caller: Caller): Page<ServiceView> {
    const { items, nextCursor } = this.#options.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.flatMap(({ id }) => this.#viewOf(id)), nextCursor }
  }

  get(ref: string, caller: Caller): ServiceView {
    return viewService(this.#find(ref, caller))
  }

  update(ref: string, change: SettingsChange, caller: Caller): ServiceView {
    const service = this.#find(ref, caller)
    service.put({ ...service.row, settings: mergeSettings(service.row.settings, change) })
    service.followSettings()
    this.#checks.follow(service)
    void matchPolicy(service).catch((err: unknown) =>
      this.#options.log.warn(
        { service: service.row.id, err },
        'replicas have their new policy a little later',
      ),
    )
    return viewService(service)
  }

  async rollback(ref: string, wanted: number | undefined, caller: Caller): Promise<ServiceView> {
    const service = this.#find(ref, caller)
    return this.#changing.run(service.row.id, async () => {
      const { current } = service.row
      const version = service.versions.find((other) =>
        wanted === undefined
          ? other.state === 'ready' && other.version < (current ?? 0)
          : other.version === wanted,
      )
      if (version === undefined)
        throw new DormouseError(
          'not_found',
          wanted === undefined ? 'There is no older version.' : `There is no version ${wanted}.`,
          { hint: HOW_TO_LIST },
        )
      if (version.ready === undefined || version.state !== 'ready')
        throw new DormouseError(
          'conflict',
          `Version ${version.version} cannot serve: it is ${version.state}.`,
          { hint: HOW_TO_LIST },
        )
      if (version.version === current) return viewService(service)
      await service.startReplica(version, version.ready)
      service.switchTo(version)
      this.#tell('deploy.rolled_back', service, version.version)
      return viewService(service)
    })
  }

  async delete(ref: string, caller: Caller): Promise<void> {
    const service = this.#find(ref, caller)
    const { id } = service.row
    // From here on it cannot be used, and the next server would complete the deletion.
    service.put({ ...service.row, state: 'deleting' })
    const deploying = this.#deploying.get(id)
    deploying?.stop.abort(new DormouseError('cancelled', 'The service was deleted.'))
    await deploying?.done
    await this.#changing.run(id, () => this.#remove(service))
  }

  logs(ref: string, query: ReadLines, caller: Caller): AsyncIterable<ServiceLogLineAnswer> {
    return this.#find(ref, caller).log.read(query)
  }

  isPublic(id: string): boolean {
    const row = this.#services.get(id as ServiceId)?.row
    return row?.state === 'active' && row.settings.public
  }

  async take(
    ref: string,
    caller: Caller,
    { session, signal }: { session: string | undefined; signal: AbortSignal },
  ): Promise<Lease> {
    return this.#find(ref, caller).take(session, signal)
  }

  async #remove(service: LiveService): Promise<void> {
    const { rows } = this.#options
    service.stop()
    for (const replica of service.replicas) await service.remove(replica)
    for (const { sandboxId } of rows.replicas(service.row.id)) await this.#deleteSandbox(sandboxId)
    for (const version of service.versions) await dropVersion(this.#options, service, version)
    await this.#ownership?.release(service.row)
    service.log.clear()
    rows.delete(service.row.id)
    this.#services.delete(service.row.id)
  }

  async #deleteSandbox(id: SandboxId): Promise<void> {
    try {
      await this.#options.sandboxes.get(id, SERVER).delete()
    } catch (error) {
      if (!hasErrorCode(error, 'not_found')) throw error
    }
  }

  async #sweep(): Promise<void> {
    for (const service of this.#services.values()) {
      const { row } = service
      if (row.state !== 'active') continue
      try {
        await service.sweep()
        await matchPolicy(service)
        // It may have been evicted meanwhile.
        if (this.#services.get(row.id) === service) this.#checks.follow(service)
      } catch (error) {
        this.#options.log.warn(
          { service: row.id, err: error },
          'replicas of a service could not be looked after',
        )
      }
    }
  }

  #live(row: ServiceRow): LiveService {
    const firstSeq = this.#ownership?.firstSeq(row.id) ?? 0
    const { rows, db, journalDb, sandboxes, nowMs, log } = this.#options
    const service: LiveService = new LiveService({
      ...{ row, rows, sandboxes, nowMs, log },
      onReplica: (id, isReplica) => {
        if (isReplica) this.#ofReplica.set(id, service)
        else this.#ofReplica.delete(id)
      },
      sessions: new ServiceSessions(db, row.id, nowMs),
      serviceLog: new ServiceLog({ db: journalDb, id: row.id, firstSeq, nowMs, log }),
      requestOf: (service, version) => replicaRequest(this.#options, service, version),
    })
    this.#services.set(row.id, service)
    return service
  }

  #find(ref: string, caller: Caller): LiveService {
    const service = this.#services.get(ref as ServiceId) ?? this.#findNamed(ref, caller.keyId)
    const isSeen = caller.isAdmin || service?.row.owner === caller.keyId
    if (service === undefined || !isSeen || service.row.state !== 'active')
      throw new DormouseError('not_found', `There is no service "${ref}".`, {
        hint: 'A service belongs to the key that deployed it. List yours with `dormouse service ls`.',
      })
    return service
  }

  #findNamed(name: string, owner: string): LiveService | undefined {
    for (const service of this.#services.values())
      if (service.row.name === name && service.row.owner === owner && service.row.state === 'active')
        return service
    return undefined
  }

  #viewOf(id: ServiceId): ServiceView[] {
    const service = this.#services.get(id)
    return service === undefined ? [] : [viewService(service)]
  }
}

function planOf(request: DeployServiceRequest): VersionRow['plan'] {
  const { port, template, env, secrets, volumes, limits, network, ready, cwd, user, start } = request
  return {
    ...{ port, template, env, secrets, volumes, limits, start },
    ...(network && { network }),
    ...(ready && { ready }),
    ...(cwd !== undefined && { cwd }),
    ...(user !== undefined && { user }),
  } as VersionRow['plan']
}

const SERVER: Caller = { keyId: 'server', isAdmin: true }
