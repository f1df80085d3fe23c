import { type DeadlineClock, hostDeadlineClock } from '@dormouse/async'
import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { compareAndSet, read } from './compare-and-set.ts'
import { decodeHost, encodeHost, type HostRecord, isSameRenewal } from './host-record.ts'
import { SignedHosts } from './signed-hosts.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

export interface HostsOptions {
  readonly hosts: KV
  /** Of the connection of `hosts`. */
  readonly keys: KV
  readonly key: ClusterKey
  readonly leaseMs: number
  /** This host. */
  readonly id: string
  readonly clock?: DeadlineClock
  /** How often a host looks whether all others sign their records. */
  readonly lookMs?: number
}

const OLDER_HOST_MS = 3600 * 1000
const LOOK_MS = 60_000
const CHECKS_PER_LEASE = 8
/** The part of a lease time without any renewal after which something is wrong with the watch. */
const SILENCE = 0.5

/** `lost`: its lease may be ended, or has been. */
export type HostState = 'alive' | 'lost' | 'left'

interface Seen {
  readonly record: HostRecord
  readonly isSigned: boolean
  readonly revision: number
  /** When this host saw this revision first, by its own monotonic clock. */
  readonly atMs: number
}

/** The hosts of the cluster, as this host sees them. */
export class Hosts implements Disposable {
  readonly #options: HostsOptions
  readonly #clock: DeadlineClock
  readonly #seen = new Map<string, Seen>()
  /** What hosts have said within the last hour that they do not say any more, since they were upgraded. */
  readonly #former = new Map<string, Pick<Seen, 'record' | 'atMs'>>()
  readonly #checks: NodeJS.Timeout
  readonly #signed: SignedHosts
  readonly #looks: NodeJS.Timeout
  #watch: WatchedBucket | undefined
  #heardMs: number
  /** When this host has found last that it heard nothing. */
  #silentMs = Number.NEGATIVE_INFINITY
  readonly #openedMs: number

  private constructor(options: HostsOptions) {
    this.#options = options
    this.#clock = options.clock ?? hostDeadlineClock
    this.#heardMs = this.#clock.monotonicMs()
    this.#openedMs = this.#heardMs
    this.#signed = new SignedHosts(options)
    this.#looks = setInterval(
      () => void this.#requireSigned().catch(() => {}),
      options.lookMs ?? LOOK_MS,
    ).unref()
    this.#checks = setInterval(() => this.#requireHeard(), options.leaseMs / CHECKS_PER_LEASE).unref()
  }

  static async open(options: HostsOptions): Promise<Hosts> {
    const hosts = new Hosts(options)
    await hosts.#signed.look()
    hosts.#watch = await watchBucket(options.hosts, {
      put: (key, { value, revision }) => {
        hosts.#heardMs = hosts.#clock.monotonicMs()
        hosts.#see(key, value, revision)
      },
      removed: (key) => hosts.#seen.delete(key),
    })
    await hosts.#requireSigned()
    return hosts
  }

  [Symbol.dispose](): void {
    clearInterval(this.#checks)
    clearInterval(this.#looks)
    this.#watch?.[Symbol.dispose]()
  }

  all(): HostRecord[] {
    return [...this.#seen.values()].map(({ record }) => record).sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /**
   * Hosts that may have been alive within this time, an hour at most: a host that has just started counts all of them. One
   * that was upgraded meanwhile is there twice.
   */
  seenWithin(ms: number): HostRecord[] {
    const now = this.#clock.monotonicMs()
    const all = [...this.#seen.values(), ...this.#former.values()]
    return all.filter(({ atMs }) => now - atMs < ms).map(({ record }) => record)
  }

  /** Whether `seenWithin` has all hosts that were alive in this time. */
  hasListened(ms: number): boolean {
    const now = this.#clock.monotonicMs()
    const { leaseMs } = this.#options
    // After a silence, those that are alive have renewed their leases within a lease time.
    const isHearing = now - this.#heardMs < leaseMs * SILENCE && now - this.#silentMs >= leaseMs
    return isHearing && now - this.#openedMs >= ms
  }

  find(id: string): HostRecord | undefined {
    return this.#seen.get(id)?.record
  }

  stateOf(id: string): HostState {
    const seen = this.#seen.get(id)
    if (seen === undefined) return 'lost'
    if (seen.record.hasLeft) return 'left'
    if (seen.record.fencedBy !== undefined) return 'lost'
    if (id === this.#options.id) return 'alive'
    return this.#clock.monotonicMs() - seen.atMs < this.#options.leaseMs ? 'alive' : 'lost'
  }

  /**
   * Makes sure that the lease `epoch` of a host has ended, and ends it when its time is over. Only the compare-and-set
   * decides: what this host has seen may be old. False: the host is alive, or has a newer lease.
   */
  async end(id: string, epoch: number): Promise<boolean> {
    const seen = this.#seen.get(id)
    // Records of hosts are never removed. Without one, it is not known whether the host lives.
    if (seen === undefined) return false
    const { record } = seen
    if (record.epoch !== epoch) return false
    if (record.fencedBy !== undefined || record.hasLeft) return true
    if (this.stateOf(id) !== 'lost') return false
    return await this.#write({ ...record, fencedBy: this.#options.id }, seen)
  }

  /** Every host hears its own renewals, too: after a longer silence the watch begins again. */
  #requireHeard(): void {
    const now = this.#clock.monotonicMs()
    if (now - this.#heardMs < this.#options.leaseMs * SILENCE) return
    this.#heardMs = now
    this.#silentMs = now
    void this.#watch?.renew().catch(() => {})
  }

  /** A new cluster at once, any other one when no host without signatures was seen for an hour. */
  async #requireSigned(): Promise<void> {
    if (this.#signed.isRequired) return
    await this.#signed.look()
    if (!this.#signed.isRequired) {
      const sinceMs = this.#clock.monotonicMs() - OLDER_HOST_MS
      const unsigned = [...this.#seen.values()].filter(({ isSigned }) => !isSigned)
      const isTooEarly = this.#openedMs > sinceMs && this.#seen.size > 0
      if (isTooEarly || unsigned.some(({ atMs }) => atMs > sinceMs)) return
      // What hosts of earlier versions have left behind stays known: others may take their sandboxes over.
      for (const seen of unsigned) if (!(await this.#sign(seen))) return
      await this.#signed.require()
    }
    for (const [id, { isSigned }] of this.#seen) if (!isSigned) this.#seen.delete(id)
  }

  /** Pre: the host is lost or has left. */
  async #sign(seen: Seen): Promise<boolean> {
    const { record } = seen
    const isOver = record.hasLeft || record.fencedBy !== undefined
    return await this.#write(isOver ? record : { ...record, fencedBy: this.#options.id }, seen)
  }

  /** False when the host, or another one, has written meanwhile. */
  async #write(record: HostRecord, seen: Seen): Promise<boolean> {
    const { hosts, key } = this.#options
    const expected = await this.#revisionOf(seen.record)
    if (expected === undefined) return false
    const value = encodeHost(record, key)
    const next = await compareAndSet(hosts, record.id, { value, expected })
    if (next === undefined) return false
    this.#see(record.id, Buffer.from(value), next)
    return true
  }

  /**
   * The revision that the leader of the bucket has for a record. The server that told it may number it otherwise, after
   * its disk was full. Undefined when the record has changed since.
   */
  async #revisionOf(record: HostRecord): Promise<number | undefined> {
    const { hosts, key } = this.#options
    const found = await read(hosts, record.id)
    const now = found && decodeHost(found.value, key)?.record
    return isSameRenewal(now, record) ? found?.revision : undefined
  }

  #see(id: string, value: Uint8Array, revision: number): void {
    const decoded = decodeHost(value, this.#options.key)
    const before = this.#seen.get(id)
    if (decoded === undefined || (before !== undefined && before.revision >= revision)) return
    if (decoded.record.id !== id || (this.#signed.isRequired && !decoded.isSigned)) return
    if (before !== undefined) this.#remember(before, decoded.record)
    this.#seen.set(id, { ...decoded, revision, atMs: this.#clock.monotonicMs() })
  }

  #remember({ record, atMs }: Seen, now: HostRecord): void {
    const said = abilitiesOfVersion(record)
    if (said === abilitiesOfVersion(now)) return
    for (const [key, former] of this.#former) if (atMs - former.atMs > OLDER_HOST_MS) this.#former.delete(key)
    this.#former.set(said, { record, atMs })
  }
}

/** What only another version says otherwise. */
function abilitiesOfVersion({ id, version, forms, stateFormat }: HostRecord): string {
  return JSON.stringify([id, version, forms, stateFormat])
}
