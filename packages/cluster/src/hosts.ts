import { type DeadlineClock, hostDeadlineClock } from '@dormouse/async'
import type { KV } from '@nats-io/kv'
import { compareAndSet } from './compare-and-set.ts'
import { decodeHost, encodeHost, type HostRecord } from './host-record.ts'
import { type WatchedBucket, watchBucket } from './watch-bucket.ts'

export interface HostsOptions {
  readonly hosts: KV
  readonly leaseMs: number
  /** This host. */
  readonly id: string
  readonly clock?: DeadlineClock
}

const CHECKS_PER_LEASE = 8
/** The part of a lease time without any renewal after which something is wrong with the watch. */
const SILENCE = 0.5

/** `lost`: its lease may be ended, or has been. */
export type HostState = 'alive' | 'lost' | 'left'

interface Seen {
  readonly record: HostRecord
  readonly revision: number
  /** When this host saw this revision first, by its own monotonic clock. */
  readonly atMs: number
}

/** The hosts of the cluster, as this host sees them. */
export class Hosts implements Disposable {
  readonly #options: HostsOptions
  readonly #clock: DeadlineClock
  readonly #seen = new Map<string, Seen>()
  readonly #checks: NodeJS.Timeout
  #watch: WatchedBucket | undefined
  #heardMs: number

  private constructor(options: HostsOptions) {
    this.#options = options
    this.#clock = options.clock ?? hostDeadlineClock
    this.#heardMs = this.#clock.monotonicMs()
    this.#checks = setInterval(() => this.#requireHeard(), options.leaseMs / CHECKS_PER_LEASE).unref()
  }

  static async open(options: HostsOptions): Promise<Hosts> {
    const hosts = new Hosts(options)
    hosts.#watch = await watchBucket(options.hosts, {
      put: (key, { value, revision }) => {
        hosts.#heardMs = hosts.#clock.monotonicMs()
        hosts.#see(key, value, revision)
      },
      removed: (key) => hosts.#seen.delete(key),
    })
    return hosts
  }

  [Symbol.dispose](): void {
    clearInterval(this.#checks)
    this.#watch?.[Symbol.dispose]()
  }

  all(): HostRecord[] {
    return [...this.#seen.values()].map(({ record }) => record).sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Hosts that may have been alive within this time: a host that has just started counts all of them. */
  seenWithin(ms: number): HostRecord[] {
    const now = this.#clock.monotonicMs()
    return [...this.#seen.values()].filter(({ atMs }) => now - atMs < ms).map(({ record }) => record)
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
    const { record, revision } = seen
    if (record.epoch !== epoch) return false
    if (record.fencedBy !== undefined || record.hasLeft) return true
    if (this.stateOf(id) !== 'lost') return false
    const value = encodeHost({ ...record, fencedBy: this.#options.id })
    const next = await compareAndSet(this.#options.hosts, id, { value, expected: revision })
    if (next === undefined) return false
    this.#see(id, Buffer.from(value), next)
    return true
  }

  /** Every host hears its own renewals, too: after a longer silence the watch begins again. */
  #requireHeard(): void {
    const now = this.#clock.monotonicMs()
    if (now - this.#heardMs < this.#options.leaseMs * SILENCE) return
    this.#heardMs = now
    void this.#watch?.renew().catch(() => {})
  }

  #see(id: string, value: Uint8Array, revision: number): void {
    const record = decodeHost(value)
    const before = this.#seen.get(id)
    if (record === undefined || (before !== undefined && before.revision >= revision)) return
    this.#seen.set(id, { record, revision, atMs: this.#clock.monotonicMs() })
  }
}
