import { createHash } from 'node:crypto'
import { KeyedMutex, settledWithin } from '@dormouse/async'
import {
  type Directory,
  diskProblemOf,
  type HostRecord,
  type Located,
  Names,
  type ServiceEntry,
} from '@dormouse/cluster'
import { DormouseError, hasErrorCode, type SandboxId, type ServiceId } from '@dormouse/contracts'
import type { DeploymentService } from '../deployments/deployment-service.ts'
import type { ServiceOwnership } from '../deployments/service-ownership.ts'
import type { ServiceRow, ServiceRows } from '../deployments/service-rows.ts'
import type { Log } from '../log.ts'
import { leaseLost } from './cluster-errors.ts'
import type { Peers } from './peers.ts'
import { type PlaceService, placeService } from './place-service.ts'
import { ServiceEntries, stateIn } from './service-entries.ts'

export interface ClusterServicesOptions extends PlaceService {
  readonly peers: Peers
  readonly rows: ServiceRows
  /** Deletes what this host has of the log of a service that is gone. */
  readonly clearLog: (id: ServiceId) => void
  readonly leaseMs: number
  readonly log: Log
}

type LocatedService = Located<ServiceEntry>

const LOOK_MS = 1_000
/** A service that could not be taken over is tried again after this time. */
const RETRY_MS = 10_000
const FLUSH_MS = 3_000
const MOVE_TIMEOUT_MS = 60_000
/** Lines of a log that a host may write before another one has the service. */
const LINES_PER_HOST = 1e9

/**
 * Which host has which service. The entry of a service has all that another host needs to continue it. When the lease of
 * its host has ended, the first host that gets a request for it takes it over; without a request, one of them does so
 * after a while.
 */
export class ClusterServices implements ServiceOwnership, Disposable {
  readonly #options: ClusterServicesOptions
  readonly #entries: ServiceEntries
  readonly #names: Names
  readonly #locks = new KeyedMutex()
  readonly #lostSince = new Map<string, number>()
  readonly #triedAt = new Map<string, number>()
  #deployments: DeploymentService | undefined
  #timer: NodeJS.Timeout | undefined

  private constructor(options: ClusterServicesOptions, entries: ServiceEntries) {
    this.#options = options
    this.#entries = entries
    const { names: bucket, key } = options.cluster.connection
    const exists = async (id: string) => (await entries.directory.read(id)) !== undefined
    this.#names = new Names({ bucket, key, exists })
  }

  /** Claims the services of this host for its lease, and forgets those that are another host's. Pre: none is open. */
  static async open(options: ClusterServicesOptions): Promise<ClusterServices> {
    const { cluster, rows, clearLog, log } = options
    const entries = await ServiceEntries.open({ cluster, rows, clearLog, log })
    const services = new ClusterServices(options, entries)
    entries.onLost = (id) => services.#evict(id)
    rows.onChange = (id) => entries.publish(id)
    await services.claimAll()
    return services
  }

  /** Services may come and go from now on. Pre: those of this host are open. */
  start(deployments: DeploymentService): void {
    this.#deployments = deployments
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#entries[Symbol.dispose]()
  }

  get directory(): Directory<ServiceEntry> {
    return this.#entries.directory
  }

  /** Resolves when the other hosts can know what this one has changed, or after a short time. */
  async flush(): Promise<void> {
    await settledWithin(this.#entries.flush(), FLUSH_MS)
  }

  /** For a new lease: claims what is still this host's. What another host has continued is evicted. */
  async claimAll(): Promise<void> {
    const { cluster, rows } = this.#options
    const { directory } = this.#entries
    await directory.catchUp()
    for (const located of [...directory.all()])
      if (located.entry.host === cluster.hostId) await this.#claimOwn(located)
    for (const { id } of rows.all()) {
      if (this.#entries.isHeld(id)) continue
      const located = await directory.read(id)
      // An entry that is missing without a mark was lost by NATS: the service is published again.
      if (located === undefined && !(await directory.wasRemoved(id))) await this.#entries.add(id)
      // A write of this host came between.
      else if (located?.entry.host === cluster.hostId) await this.#claimOwn(located)
      else this.#evict(id)
    }
    for (const id of await this.#entries.findReplaced()) this.#evict(id)
  }

  /** A host that ended between the claim of a service and the import has no rows of it. */
  async #claimOwn(located: LocatedService): Promise<void> {
    const { rows } = this.#options
    const isClaimed = await this.#entries.claim(located)
    if (!isClaimed || rows.stateOf(located.id as ServiceId) !== undefined) return
    const state = stateIn(located.entry)
    rows.import(state)
    await this.#deployments?.adopt(state.service)
  }

  async claim(row: ServiceRow): Promise<void> {
    if (!this.#options.cluster.isHeld) throw leaseLost()
    await this.#entries.add(row.id)
    try {
      if ((await this.#names.claim(row.id, nameOf(row))) !== row.id) throw nameTaken(row.name)
    } catch (error) {
      await this.#entries.remove(row.id)
      throw error
    }
  }

  async release(row: ServiceRow): Promise<void> {
    await this.#entries.remove(row.id)
    await this.#names.release(row.id, nameOf(row))
  }

  firstSeq(id: ServiceId): number {
    return (this.#entries.directory.find(id)?.entry.generation ?? 0) * LINES_PER_HOST
  }

  /** The host of a service, unless it is this one. */
  hostOf(ref: string, owner: string | undefined): string | undefined {
    const located = this.#entries.find(ref, owner)
    return located === undefined || this.#isHere(located.id) ? undefined : located.entry.host
  }

  /**
   * The other host that has a service; undefined: this one, or there is none. Takes the service over when its host is
   * lost. Rejects with `host_unavailable`.
   */
  placeOf(ref: string, owner: string | undefined): Promise<HostRecord | undefined> | undefined {
    const located = this.#entries.find(ref, owner)
    if (located === undefined || this.#isHere(located.id)) return undefined
    const host = this.#otherHost(located)
    if (host !== undefined) return Promise.resolve(host)
    return this.#locks.run(located.id, () => this.#bring(located.id as ServiceId))
  }

  /** Gives the services of this host to others, for a drain. One that no other host can continue stays, and is logged. */
  async giveAll(): Promise<void> {
    const { cluster, log } = this.#options
    await this.flush()
    for (const id of this.#entries.held()) {
      const located = this.#entries.directory.find(id)
      try {
        const to = located && placeService(this.#options, located, (host) => host !== cluster.hostId)
        if (to !== undefined && (await this.#entries.give(id, to))) this.#evict(id)
      } catch (err) {
        log.warn({ service: id, err }, 'a service stays on a host that is drained')
      }
    }
  }

  #isHere(id: string): boolean {
    return this.#entries.isHeld(id) && this.#deployments?.has(id as ServiceId) === true
  }

  #otherHost({ entry: { host } }: LocatedService): HostRecord | undefined {
    const { cluster } = this.#options
    return host !== cluster.hostId && cluster.isAlive(host) ? cluster.hosts.find(host) : undefined
  }

  async #bring(id: ServiceId): Promise<HostRecord | undefined> {
    const { cluster, log } = this.#options
    const located = await this.#entries.directory.read(id)
    if (located === undefined || this.#isHere(id)) return undefined
    const { host, epoch } = located.entry
    const isGiven = host === cluster.hostId
    const other = this.#otherHost(located) ?? placeService(this.#options, located)
    if (other !== undefined) return other
    if (!isGiven && !(await cluster.hosts.end(host, epoch))) throw stillHeld(host)
    if (!cluster.isHeld) throw leaseLost()
    if (!(await this.#entries.claim(located))) throw stillHeld(host)
    if (!isGiven && !(await this.#entries.stands(id))) throw stillHeld(host)
    log.warn({ service: id, from: host }, 'a service of another host continues here')
    await this.#import(id, located.entry)
    return undefined
  }

  /** Brings replicas along that are in the depot. The others start from the snapshot of their version. */
  async #import(id: ServiceId, entry: ServiceEntry): Promise<void> {
    const { rows } = this.#options
    const state = stateIn(entry)
    const current = state.replicas.filter(({ version }) => version === state.service.current)
    const brought = await Promise.all(
      current.map(async (replica) => {
        const isHere = await this.#bringReplica(replica.sandboxId, state.service.owner).catch(() => false)
        return isHere ? [replica] : []
      }),
    )
    rows.import({ ...state, replicas: brought.flat() })
    await this.#deployments?.adopt(state.service)
    this.#entries.publish(id)
  }

  /** One that another host runs is moved here first. */
  async #bringReplica(id: SandboxId, keyId: string): Promise<boolean> {
    const { cluster, peers } = this.#options
    const host = cluster.hosts.find(cluster.directory.find(id)?.entry.host ?? '')
    if (host !== undefined && host.id !== cluster.hostId && cluster.isAlive(host.id)) {
      const body = { node: cluster.hostId }
      const path = `/v1/sandboxes/${id}/move`
      await peers.request(host, { method: 'POST', path, body, keyId, timeoutMs: MOVE_TIMEOUT_MS })
    }
    return await cluster.takeOver.bringHere(id)
  }

  #evict(id: ServiceId): void {
    this.#options.log.warn({ service: id }, 'a service is another host’s now')
    this.#entries.forget(id)
    if (this.#deployments === undefined) this.#options.rows.delete(id)
    else this.#deployments.evict(id)
  }

  /** Takes over services that no request has asked for: they may have replicas that stay awake, and lists show them. */
  #look(): void {
    const { cluster, leaseMs, log } = this.#options
    if (!cluster.isHeld) return
    const now = performance.now()
    for (const { id, entry } of [...this.#entries.directory.all()]) {
      if (this.#isHere(id)) continue
      if (cluster.isAlive(entry.host) && entry.host !== cluster.hostId) {
        this.#lostSince.delete(entry.host)
        continue
      }
      const since = this.#lostSince.get(entry.host) ?? now
      this.#lostSince.set(entry.host, since)
      const isGiven = entry.host === cluster.hostId
      const isDue =
        (isGiven || now - since > leaseMs) && now - (this.#triedAt.get(id) ?? -RETRY_MS) > RETRY_MS
      if (!isDue || (!isGiven && this.#turnOf(id) !== cluster.hostId)) continue
      this.#triedAt.set(id, now)
      void this.placeOf(id, undefined)?.catch((err: unknown) => {
        const level = hasErrorCode(err, 'host_unavailable') ? 'info' : 'warn'
        log[level]({ service: id, err }, 'a service of a lost host cannot continue here yet')
      })
    }
  }

  /** Spreads the services of a lost host over the others. */
  #turnOf(id: string): string | undefined {
    const { cluster } = this.#options
    const hasRoom = (host: HostRecord) => !host.isCordoned && diskProblemOf(host) === undefined
    const able = cluster.hosts.all().filter((host) => cluster.isAlive(host.id) && hasRoom(host))
    const weightOf = (host: HostRecord) => createHash('sha256').update(`${id} ${host.id}`).digest('hex')
    return able
      .map((host) => ({ host, weight: weightOf(host) }))
      .sort((a, b) => (a.weight < b.weight ? 1 : -1))[0]?.host.id
  }
}

/** Sandboxes have names in the same bucket, without a space. */
function nameOf({ owner, name }: ServiceRow): { owner: string; name: string } {
  return { owner, name: `service ${name}` }
}

function nameTaken(name: string): DormouseError {
  return new DormouseError('name_taken', `Another host makes a service named "${name}" at this moment.`, {
    hint: 'Try again: then the next version is deployed there.',
  })
}

function stillHeld(host: string): DormouseError {
  return new DormouseError('host_unavailable', `The service is on host ${host}, which does not answer.`, {
    hint: 'Another host continues it when the lease of that host has ended.',
    details: { host, retryAfterMs: 1_000 },
  })
}
