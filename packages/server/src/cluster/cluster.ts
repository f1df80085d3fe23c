import { setTimeout as sleep } from 'node:timers/promises'
import { retryUntilDone, SharedDeadline, settledWithin } from '@dormouse/async'
import {
  type ClusterConnection,
  type Depot,
  Directory,
  type HostDescription,
  type HostRecord,
  Hosts,
  Lease,
  Names,
} from '@dormouse/cluster'
import type { SandboxId } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import type { Ownership } from '../sandbox/ownership.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'
import { checkEntry } from './check-entry.ts'
import type { ClusterRows } from './cluster-rows.ts'
import type { ClusterServices } from './cluster-services.ts'
import { DepotUpkeep } from './depot-upkeep.ts'
import { FencedEffects } from './fenced-effects.ts'
import { type OpenDepot, openDepot } from './open-depot.ts'
import { OwnEntries } from './own-entries.ts'
import { OwnedSandboxes } from './owned-sandboxes.ts'
import { Replication } from './replication.ts'
import { ownershipOf } from './sandbox-ownership.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'
import { type Place, TakeOver } from './take-over.ts'

export interface ClusterOptions {
  readonly connection: ClusterConnection
  readonly rows: ClusterRows
  readonly describe: () => HostDescription
  /** What this host tells the others. Where it listens is empty until it does. */
  readonly shown: {
    url: string
    ssh: HostDescription['ssh']
    drain?: HostDescription['drain']
    fetched?: string[]
  }
  readonly leaseMs: number
  readonly replicas: number
  readonly dataDir: string
  readonly depot: OpenDepot['depot']
  /** Memory of the deadline that the threads of this server look at. */
  readonly fence: SharedArrayBuffer
  readonly transfer: SnapshotCarrier
  readonly deps: SandboxDependencies
  readonly log: Log
}

/** How many of the sandboxes and snapshots that a host has fetched it tells the others. */
const FETCHED_MAX = 100
const REJOIN_PAUSE_MS = 300
/** How long a deletion of a copy waits before it is tried again. */
const EVICT_RETRY_MS = 1_000
/** A copy that cannot be removed yet, on a full disk for example, does nothing, and must not stop all others. */
const EVICT_MS = 10_000

/** This host as a member of its cluster: its lease, the sandboxes it owns, and those it takes over. */
export class Cluster implements AsyncDisposable {
  readonly hosts: Hosts
  readonly directory: Directory
  readonly names: Names
  readonly owned: OwnedSandboxes
  readonly takeOver: TakeOver
  readonly ownership: Ownership
  readonly replication: Replication
  readonly upkeep: DepotUpkeep
  readonly depot: Depot
  /** Certificates that sign those of the other hosts, instead of the usual ones. */
  trust: { ca?: string[] } = {}
  /** Set when the shared state is open. */
  services: ClusterServices | undefined
  readonly #options: ClusterOptions
  readonly #deadline = new SharedDeadline()
  /** What the gates go by. */
  readonly #fence: SharedDeadline
  readonly #entries: OwnEntries
  readonly #ending = new AbortController()
  readonly #lostListeners = new Set<() => void>()
  readonly #joinedListeners = new Set<() => void>()
  #lease: Lease | undefined
  /** A host with a new lease does nothing before it knows which sandboxes are still its own. */
  #isJoined = false
  /** Its sandboxes were recovered. */
  #isStarted = false
  readonly #effects: FencedEffects
  #rejoining: Promise<void> | undefined

  private constructor(options: ClusterOptions, parts: { hosts: Hosts; directory: Directory; depot: Depot }) {
    const { connection, rows, transfer, deps, fence, log } = options
    const { hosts, directory, depot } = parts
    const { hostId } = rows
    this.#options = options
    this.#fence = new SharedDeadline(fence)
    this.#effects = new FencedEffects(deps, log)
    this.hosts = hosts
    this.directory = directory
    this.depot = depot
    this.names = new Names({
      ...{ bucket: connection.names, key: connection.key },
      exists: async (id) => (directory.find(id) ?? (await directory.read(id))) !== undefined,
    })
    const onLost = (id: SandboxId) => void this.#evict(id)
    const ancestorsOf = (id: SandboxId) => deps.lineage.ancestorsOf(id)
    this.owned = new OwnedSandboxes({ directory, names: this.names, hostId, ancestorsOf, onLost })
    const { names, owned } = this
    this.#entries = new OwnEntries({ directory, names, owned, hostId, rows: deps.rows })
    const rowOf = (id: SandboxId) => deps.sandboxes.find(id)?.row
    this.replication = new Replication({ depot, transfer, owned: this.owned, rowOf, log })
    const isHeld = () => this.isHeld
    this.ownership = ownershipOf({ owned: this.owned, replication: this.replication, isHeld })
    this.upkeep = new DepotUpkeep({ hostId, depot, directory, hosts, transfer, isHeld, log })
    this.takeOver = new TakeOver({
      ...{ hostId, directory, hosts, depot, transfer, deps, isHeld, owned: this.owned },
      onFetched: (id) => this.noteHeld(id),
    })
  }

  /**
   * Joins: takes the lease, and claims what the directory says is this host's. Rows of sandboxes that are not this
   * host's any more become `deleting`, so that recovery removes what is left of them. Pre: recovery has not run.
   */
  static async join(options: ClusterOptions): Promise<Cluster> {
    const { connection, rows, leaseMs, deps } = options
    const { hosts: bucket, directory: entries, key } = connection
    const onUnreadable = (sandboxId: string, err: unknown) =>
      options.log.error({ sandboxId, err }, 'an entry of the directory cannot be read, and is left out')
    const [hosts, directory, depot] = await Promise.all([
      Hosts.open({ hosts: bucket, keys: connection.keys, key, leaseMs, id: rows.hostId }),
      Directory.open({ bucket: entries, key, check: checkEntry, onUnreadable }),
      openDepot(options),
    ])
    const cluster = new Cluster(options, { hosts, directory, depot })
    try {
      await cluster.#join()
      deps.ownership = cluster.ownership
      return cluster
    } catch (error) {
      // The next server takes the next lease: a host that starts says nothing of what an earlier server left running.
      cluster.#lease?.abandon()
      await cluster[Symbol.asyncDispose]()
      throw error
    }
  }

  async #join(): Promise<void> {
    const { deps, log } = this.#options
    await this.#takeLease()
    await this.directory.catchUp()
    await this.#entries.claimAll()
    // Before recovery: a burrow may wait for its memory.
    await this.upkeep.resumeArrivals()
    for (const row of deps.rows.all()) {
      if (row.state === 'deleting' || !(await this.#entries.isGone(row.id))) continue
      log.warn({ sandboxId: row.id }, 'a sandbox is another host’s now; its copy here is removed')
      deps.rows.put({ ...row, state: 'deleting', name: undefined }, row)
    }
    this.#beginToAct()
  }

  get hostId(): string {
    return this.#options.rows.hostId
  }

  get connection(): ClusterConnection {
    return this.#options.connection
  }

  get isNew(): boolean {
    return this.#options.rows.isNew
  }

  get isHeld(): boolean {
    return this.#isJoined && this.#lease?.isHeld === true
  }

  get isCordoned(): boolean {
    return this.#options.rows.isCordoned
  }

  /** Tells the other hosts where this one listens. */
  async announce(address: string): Promise<void> {
    this.#options.shown.url = address
    await this.#lease?.renew()
  }

  /** The same for its SSH server. */
  async announceSsh(ssh: HostDescription['ssh']): Promise<void> {
    this.#options.shown.ssh = ssh
    await this.#lease?.renew()
  }

  /** Tells the other hosts how far a drain is. */
  async showDrain(drain: NonNullable<HostDescription['drain']>): Promise<void> {
    this.#options.shown.drain = drain
    await this.#lease?.renew()
  }

  /** This host has fetched a sandbox or a snapshot. */
  noteHeld(id: string): void {
    const { shown } = this.#options
    shown.fetched = [id, ...(shown.fetched ?? []).filter((other) => other !== id)].slice(0, FETCHED_MAX)
  }

  async setCordoned(isCordoned: boolean): Promise<void> {
    this.#options.rows.isCordoned = isCordoned
    if (!isCordoned) this.#options.shown.drain = undefined
    await this.#lease?.renew()
  }

  /** `listener` is called when this host must stop acting for its sandboxes. */
  onLost(listener: () => void): void {
    this.#lostListeners.add(listener)
  }

  /** `listener` is called when this host has a lease again. */
  onJoined(listener: () => void): void {
    this.#joinedListeners.add(listener)
  }

  isHere(ref: string): boolean {
    return this.#options.deps.sandboxes.isHere(ref)
  }

  isAlive(hostId: string): boolean {
    return this.hosts.stateOf(hostId) === 'alive'
  }

  /** Where a sandbox or a host is: `ref` is an id, or a name with its owner. Throws `host_unavailable`. */
  async locate(
    ref: string,
    { owner, isFresh }: { owner: string | undefined; isFresh: boolean },
  ): Promise<Place> {
    const host = this.hosts.find(ref)
    if (host !== undefined) return { kind: 'elsewhere', host }
    if (owner === undefined) return await this.takeOver.locate(ref, { isFresh })
    if (this.#options.deps.sandboxes.findNamed(ref, owner) !== undefined) return { kind: 'here' }
    const id = await this.names.find({ name: ref, owner })
    return id === undefined ? { kind: 'unknown' } : await this.takeOver.locate(id, { isFresh })
  }

  placeOfService(ref: string, owner: string | undefined): Promise<HostRecord | undefined> | undefined {
    return this.services?.placeOf(ref, owner)
  }

  readonly listener: SandboxListener = {
    changed: (row) => {
      this.owned.publish(row)
      this.replication.schedule(row)
    },
  }

  /** Gives a sandbox that sleeps and is replicated to another host. False when it is awake, or not replicated. */
  async give(sandbox: Sandbox, node: string): Promise<boolean> {
    const isGiven = await sandbox.exclusive(async () => {
      const { id, row } = sandbox
      const to = this.hosts.find(node)
      if (to === undefined || row.state !== 'standby' || !this.replication.isReplicated(id)) return false
      if (!(await this.owned.giveTo(id, { host: to.id, epoch: to.epoch }))) return false
      this.owned.forget(id)
      return true
    })
    if (isGiven) await this.#evict(sandbox.id)
    return isGiven
  }

  /** Publishes what recovery has found. Pre: it has run, and `listener` hears of changes. */
  start(): void {
    this.#isStarted = true
    if (this.isHeld) this.#publishAll()
    else {
      // The lease has ended meanwhile, and what was recovered since may be another host's.
      this.#effects.stop()
      this.#rejoining ??= this.#rejoin()
    }
  }

  #publishAll(): void {
    for (const sandbox of this.#options.deps.sandboxes.all()) {
      const { id, row } = sandbox
      this.owned.publish(row)
      this.replication.schedule(row)
      if (this.owned.find(id)?.entry.nextName === undefined) continue
      // A change of its name may be under way.
      void sandbox.exclusive(() => this.owned.settleName(sandbox.row)).catch(() => {})
    }
  }

  /** Leaves the cluster. Pre: no sandbox of this host runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort()
    this.replication.close()
    this.upkeep[Symbol.dispose]()
    await this.#rejoining
    await this.owned.close()
    await this.#lease?.leave().catch(() => {})
    this.hosts[Symbol.dispose]()
    this.directory[Symbol.dispose]()
    await this.depot[Symbol.asyncDispose]()
  }

  async #takeLease(): Promise<void> {
    const { connection, describe, leaseMs } = this.#options
    // Otherwise its end would end the next one, which has the same deadline.
    this.#lease?.abandon()
    const lease: Lease = await Lease.take(
      {
        hosts: connection.hosts,
        key: connection.key,
        describe,
        leaseMs,
        deadline: this.#deadline,
        fence: this.#fence,
        onLost: () => this.#lose(lease),
      },
      this.#ending.signal,
    )
    this.#lease = lease
    this.owned.epoch = lease.epoch
    // Hosts that see its record raise no format that it cannot read. One may have done so just before.
    await connection.format.require().catch(async (error: unknown) => {
      await lease.leave().catch(() => {})
      throw error
    })
  }

  #lose(lease: Lease): void {
    if (this.#lease !== lease) return
    this.#isJoined = false
    const said = 'the lease of this host has ended; it freezes its sandboxes'
    this.#options.log.error({ epoch: lease.epoch }, said)
    this.#effects.stop()
    for (const listener of this.#lostListeners) listener()
    // While the host starts, `start` does that: nothing can be evicted before it was recovered.
    if (this.#isStarted && !this.#ending.signal.aborted) this.#rejoining ??= this.#rejoin()
  }

  /** Pre: this host knows which sandboxes are its own. The lease may have ended meanwhile. */
  #beginToAct(): void {
    this.#isJoined = this.#lease?.isHeld === true
    if (this.#isJoined) this.#lease?.act()
  }

  async #rejoin(): Promise<void> {
    const { deps, log } = this.#options
    while (!this.#ending.signal.aborted) {
      try {
        await this.#takeLease()
        this.owned.reset()
        await this.directory.catchUp()
        await this.#entries.claimAll()
        for (const { id } of [...deps.sandboxes.all()])
          if (await this.#entries.isGone(id)) await settledWithin(this.#evict(id), EVICT_MS)
        await this.services?.claimAll()
        this.#beginToAct()
        const lease = this.#lease
        void this.#effects.resume(() => this.isHeld && this.#lease === lease)
        // The lease may have ended meanwhile: then all begins again.
        if (!this.isHeld) continue
        this.#publishAll()
        for (const listener of this.#joinedListeners) listener()
        log.info({ epoch: this.owned.epoch }, 'this host has a lease again')
        this.#rejoining = undefined
        return
      } catch (err) {
        log.warn({ err }, 'this host could not join its cluster again yet')
        await sleep(REJOIN_PAUSE_MS, undefined, { ref: false })
      }
    }
  }

  /** Removes the copy of a sandbox that another host owns. */
  async #evict(id: SandboxId): Promise<void> {
    const { deps, log } = this.#options
    this.owned.forget(id)
    const sandbox = deps.sandboxes.find(id)
    if (sandbox === undefined || sandbox.isDeleted) return
    sandbox.isLeaving = true
    log.warn({ sandboxId: id }, 'a sandbox is another host’s now; its copy here is removed')
    deps.network.shut(id)
    await sandbox.burrow?.destroy().catch(() => {})
    await retryUntilDone(() => sandbox.delete(), {
      delayMs: EVICT_RETRY_MS,
      isOver: () => this.#ending.signal.aborted,
      onFailure: (err) => log.error({ sandboxId: id, err }, 'the copy of a sandbox could not be removed'),
    })
  }
}
