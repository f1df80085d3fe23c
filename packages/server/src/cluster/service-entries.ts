import { setTimeout as sleep } from 'node:timers/promises'
import { KeyedMutex } from '@dormouse/async'
import { Directory, type Located, SERVICE_ENTRIES, type ServiceEntry } from '@dormouse/cluster'
import { DormouseError, isServiceId, type ServiceId } from '@dormouse/contracts'
import type { ServiceRows, ServiceState } from '../deployments/service-rows.ts'
import type { Log } from '../log.ts'
import type { Cluster } from './cluster.ts'

export interface ServiceEntriesOptions {
  readonly cluster: Cluster
  readonly rows: ServiceRows
  readonly clearLog: (id: ServiceId) => void
  readonly log: Log
}

type LocatedService = Located<ServiceEntry>

const RETRY_MS = 500
const REMOVE_TRIES = 10
/** NATS takes messages of a megabyte, and encryption adds a little. */
const VERSIONS_MAX_BYTES = 800_000

/** The entries of all services in NATS, and those of this host, which it writes when their rows change. */
export class ServiceEntries implements Disposable {
  /** Called when another host has taken a service of this one over. */
  onLost: (id: ServiceId) => void = () => {}
  readonly #options: ServiceEntriesOptions
  readonly #held = new Map<string, LocatedService>()
  readonly #ids = new Map<string, string>()
  readonly #changed = new Set<string>()
  readonly #writing = new Map<string, Promise<void>>()
  readonly #turns = new KeyedMutex()
  #directory: Directory<ServiceEntry> | undefined
  #isClosed = false

  private constructor(options: ServiceEntriesOptions) {
    this.#options = options
  }

  static async open(options: ServiceEntriesOptions): Promise<ServiceEntries> {
    const entries = new ServiceEntries(options)
    const { services: bucket, key } = options.cluster.connection
    const onUnreadable = (service: string, err: unknown) =>
      options.log.error({ service, err }, 'the entry of a service cannot be read, and is left out')
    entries.#directory = await Directory.openOf(
      SERVICE_ENTRIES,
      { bucket, key, check: checkServiceEntry, onUnreadable },
      (id, located) => entries.#heard(id, located),
    )
    for (const located of entries.directory.all()) entries.#heard(located.id, located)
    return entries
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    this.#directory?.[Symbol.dispose]()
  }

  get directory(): Directory<ServiceEntry> {
    if (this.#directory === undefined) throw new Error('the entries of services are not open')
    return this.#directory
  }

  /** By id, or by the name that its owner gave it. */
  find(ref: string, owner: string | undefined): LocatedService | undefined {
    const id = isServiceId(ref) || owner === undefined ? ref : this.#ids.get(nameKey(owner, ref))
    return id === undefined ? undefined : this.directory.find(id)
  }

  /** This host has claimed the service for its lease. */
  isHeld(id: string): boolean {
    return this.#held.get(id)?.entry.epoch === this.#epoch
  }

  /** The service is another host's. */
  forget(id: string): void {
    this.#held.delete(id)
    this.#changed.delete(id)
  }

  /** Adds the entry of a service that has none. Pre: its rows are here. */
  async add(id: ServiceId): Promise<void> {
    const entry = this.#entryOf(id, undefined)
    const added = entry && (await this.directory.add(id, entry))
    if (added === undefined) throw unavailable()
    this.#held.set(id, added)
  }

  /** Makes the service this host's, for its lease. False when the entry has changed meanwhile. */
  async claim(located: LocatedService): Promise<boolean> {
    const { hostId } = this.#options.cluster
    const { entry } = located
    const generation = entry.generation + (entry.host === hostId ? 0 : 1)
    const claimed = await this.directory.change(located, {
      ...entry,
      ...{ host: hostId, epoch: this.#epoch, generation },
    })
    if (claimed !== undefined) this.#held.set(located.id, claimed)
    return claimed !== undefined
  }

  /** Whether the claim of this host is the one that counts: see `Directory.stands`. Forgets the service otherwise. */
  async stands(id: ServiceId): Promise<boolean> {
    const located = this.#held.get(id)
    if (located !== undefined && (await this.directory.stands(located))) return true
    this.forget(id)
    return false
  }

  /** Services of this host whose claim another host has replaced at the same moment. */
  async findReplaced(): Promise<ServiceId[]> {
    if (this.#held.size === 0) return []
    await this.directory.catchUp()
    return this.held().filter((id) => this.directory.find(id)?.entry.host !== this.#options.cluster.hostId)
  }

  /** Ids of the services of this host. */
  held(): ServiceId[] {
    return [...this.#held.keys()].filter(isServiceId).filter((id) => this.isHeld(id))
  }

  /** Gives a service to another host. False when the entry has changed meanwhile. */
  async give(id: ServiceId, to: { id: string; epoch: number }): Promise<boolean> {
    await this.#writing.get(id)
    const located = this.#held.get(id)
    if (located === undefined) return false
    const generation = located.entry.generation + 1
    const given = { ...located.entry, host: to.id, epoch: to.epoch, generation }
    if ((await this.directory.change(located, given)) === undefined) return false
    this.forget(id)
    return true
  }

  /** Removes the entry: no host continues the service. Throws when it is another host's. */
  async remove(id: ServiceId): Promise<void> {
    await this.#writing.get(id)
    let located = this.#held.get(id)
    this.forget(id)
    for (let tries = 0; located !== undefined && tries < REMOVE_TRIES; tries += 1) {
      if (await this.directory.remove(located)) return
      const now = await this.directory.read(id)
      if (now === undefined && (await this.directory.wasRemoved(id))) return
      if (now !== undefined && now.entry.host !== this.#options.cluster.hostId) throw unavailable()
      located = now ?? located
      await sleep(RETRY_MS / 5)
    }
    if (located !== undefined) throw unavailable()
  }

  /** Writes the rows of a service of this host in the background, until that succeeds. */
  publish(id: ServiceId): void {
    if (!this.#held.has(id) || this.#isClosed) return
    this.#changed.add(id)
    if (this.#writing.has(id)) return
    const writing = this.#turns.run(id, () => this.#write(id)).finally(() => this.#writing.delete(id))
    this.#writing.set(id, writing)
  }

  /** Resolves when what was published before is in NATS. */
  async flush(): Promise<void> {
    await Promise.all(this.#writing.values())
  }

  async #write(id: ServiceId): Promise<void> {
    // Changes of one moment are one write.
    await sleep(0)
    while (this.#changed.has(id) && !this.#isClosed) {
      this.#changed.delete(id)
      try {
        await this.#put(id)
      } catch (err) {
        this.#options.log.warn({ service: id, err }, 'the other hosts do not know all of a service yet')
        if (this.#held.has(id)) this.#changed.add(id)
        await sleep(RETRY_MS, undefined, { ref: false })
      }
    }
  }

  async #put(id: ServiceId): Promise<void> {
    const located = this.#held.get(id)
    const entry = located && this.#entryOf(id, located.entry)
    if (located === undefined || entry === undefined) return
    // A host without a lease may not own it any more. The next lease claims it first.
    if (!this.isHeld(id)) throw new Error('this host has no lease')
    const changed = await this.directory.change(located, entry)
    if (changed !== undefined) {
      this.#held.set(id, changed)
      return
    }
    const now = await this.directory.read(id)
    const isMine = now?.entry.host === this.#options.cluster.hostId
    if (now !== undefined && isMine) this.#held.set(id, now)
    else if (now !== undefined || (await this.directory.wasRemoved(id))) return this.onLost(id)
    throw new Error('the entry has changed')
  }

  #heard(id: string, located: LocatedService | undefined): void {
    for (const [key, known] of this.#ids) if (known === id) this.#ids.delete(key)
    if (located !== undefined) this.#ids.set(nameKey(located.entry.owner, located.entry.name), id)
    else if (!this.#held.has(id) && isServiceId(id)) this.#options.clearLog(id)
  }

  #entryOf(id: ServiceId, before: ServiceEntry | undefined): ServiceEntry | undefined {
    const state = this.#options.rows.stateOf(id)
    if (state === undefined) return undefined
    const { owner, name } = state.service
    return {
      // A newer version may have added fields.
      ...before,
      ...{ host: this.#options.cluster.hostId, epoch: this.#epoch, generation: before?.generation ?? 0 },
      ...{ owner, name, service: state.service, versions: fittingVersions(state) },
      replicas: [...state.replicas],
    }
  }

  get #epoch(): number {
    return this.#options.cluster.owned.epoch
  }
}

/** The rows in an entry. They were checked when it was read. */
export function stateIn(entry: ServiceEntry): ServiceState {
  const { service, versions, replicas } = entry as unknown as ServiceState
  return { service, versions, replicas }
}

/** Throws for an entry that this host cannot use. Ids become names of directories and keys of rows. */
function checkServiceEntry(id: string, entry: ServiceEntry): void {
  const { service, versions, replicas } = stateIn(entry)
  const isOfIt = ({ serviceId }: { serviceId: ServiceId }) => serviceId === id
  const isRow = isServiceId(id) && service.id === id && typeof service.settings === 'object'
  if (!isRow || ![...versions, ...replicas].every(isOfIt))
    throw new Error('the entry is not that of a service')
}

/** The version that serves, then the newest that fit. Others can only be rolled back to on the host that has them. */
function fittingVersions({ service, versions }: ServiceState): unknown[] {
  const first = versions.filter(({ version }) => version === service.current)
  let bytes = 0
  const fits = (version: object) => {
    bytes += Buffer.byteLength(JSON.stringify(version))
    return bytes <= VERSIONS_MAX_BYTES
  }
  return [...first, ...versions.filter(({ version }) => version !== service.current)].filter(fits)
}

function nameKey(owner: string, name: string): string {
  return `${owner} ${name}`
}

function unavailable(): DormouseError {
  return new DormouseError('cluster_unavailable', 'NATS did not record the change of the service.', {
    hint: 'Try again.',
    details: { retryAfterMs: RETRY_MS },
  })
}
