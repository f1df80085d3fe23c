import { setTimeout as sleep } from 'node:timers/promises'
import { type DeadlineClock, hostDeadlineClock, type SharedDeadline } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { compareAndSet, read, untilWritten, type Versioned } from './compare-and-set.ts'
import {
  decodeHost,
  encodeHost,
  type HostDescription,
  type HostRecord,
  isSameRenewal,
} from './host-record.ts'

export interface LeaseTimings {
  /** A host whose record has not changed for this long, by the clock of another host, may lose what it owns. */
  readonly leaseMs: number
}

export interface LeaseOptions extends LeaseTimings {
  readonly hosts: KV
  readonly key: ClusterKey
  readonly describe: () => HostDescription
  readonly deadline: SharedDeadline
  /** The same for threads that act for sandboxes. It has passed until `act` is called. */
  readonly fence?: SharedDeadline
  /** Called once, when the lease has ended. What the host does for its sandboxes must stop at once. */
  readonly onLost: () => void
  readonly clock?: DeadlineClock
}

/** A moment by the clocks of a host. */
interface Sent {
  readonly monotonicMs: number
  readonly wallMs: number
}

/** The part of the lease time by which clocks may differ in speed, and in which a host stops what it does. */
const MARGIN = 0.2
const RENEWALS_PER_LEASE = 6
const CHECKS_PER_LEASE = 50

/**
 * The right of this host to act for its sandboxes. The record of the host in the bucket is changed by compare-and-set
 * only: by this host to renew, by another to end the lease. `deadline` counts from the moment before a renewal was
 * sent, so it passes before any other host may end the lease.
 */
export class Lease {
  readonly epoch: number
  readonly #options: LeaseOptions
  readonly #clock: DeadlineClock
  readonly #checks: NodeJS.Timeout
  readonly #stop = new AbortController()
  readonly #renewing: Promise<void>
  #record: HostRecord
  #revision: number
  #hasEnded = false
  /** When the renewal was sent that counts. */
  #sent: Sent
  #acts = false

  private constructor(options: LeaseOptions, taken: { record: HostRecord; revision: number; sent: Sent }) {
    this.#options = options
    this.#clock = options.clock ?? hostDeadlineClock
    this.#record = taken.record
    this.#revision = taken.revision
    this.#sent = taken.sent
    this.epoch = taken.record.epoch
    this.#checks = setInterval(() => this.#check(), options.leaseMs / CHECKS_PER_LEASE)
    this.#renewing = this.#renewUntilEnded()
  }

  /**
   * Takes the next lease of this host. Waits while the lease before may still be held by another process: one that was
   * started on a copy of the data directory, or on this machine before it was restarted. Throws `cluster_unavailable`.
   */
  static async take(options: LeaseOptions, signal?: AbortSignal): Promise<Lease> {
    const { hosts, key, describe, leaseMs, deadline, clock = hostDeadlineClock } = options
    return await untilWritten(async () => {
      signal?.throwIfAborted()
      const description = describe()
      let found = await read(hosts, description.id)
      const before = found && decodeHost(found.value, key)?.record
      const isOver =
        before === undefined ||
        before.hasLeft ||
        before.fencedBy !== undefined ||
        before.instance === description.instance
      if (!isOver) found = await unchanged(options, before, signal)
      const sent = { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() }
      const record = { ...description, epoch: (before?.epoch ?? 0) + 1, renewals: 0, hasLeft: false }
      const expected = found?.revision ?? 0
      const revision = await compareAndSet(hosts, record.id, { value: encodeHost(record, key), expected })
      if (revision === undefined) return undefined
      deadline.set(sent, leaseMs * (1 - MARGIN))
      return new Lease(options, { record, revision, sent })
    })
  }

  get isHeld(): boolean {
    return !this.#hasEnded && !this.#options.deadline.hasPassed
  }

  /** From now on the fence follows the deadline. Pre: the host knows what is still its own. */
  act(): void {
    this.#acts = true
    if (!this.#hasEnded) this.#extend(this.#sent)
  }

  /** Writes the record now, with what the host says of itself now. */
  async renew(): Promise<void> {
    const { hosts, key, describe, deadline } = this.#options
    const sent = { monotonicMs: this.#clock.monotonicMs(), wallMs: this.#clock.wallMs() }
    const record = { ...this.#record, ...describe(), renewals: this.#record.renewals + 1 }
    const revision = await compareAndSet(hosts, record.id, {
      value: encodeHost(record, key),
      expected: this.#revision,
    })
    if (this.#hasEnded) return
    if (revision === undefined) return await this.#readAgain()
    this.#record = record
    this.#revision = revision
    // An answer that comes too late renews nothing: another host may have ended the lease meanwhile.
    if (deadline.hasPassed) this.#end()
    else this.#extend(sent)
  }

  /** The host leaves by itself. Pre: it runs nothing. */
  async leave(): Promise<void> {
    if (this.#hasEnded) return
    this.#stopRenewing()
    await this.#renewing
    this.#endDeadline()
    const { hosts, key } = this.#options
    const value = encodeHost({ ...this.#record, hasLeft: true }, key)
    await compareAndSet(hosts, this.#record.id, { value, expected: this.#revision })
  }

  /** Stops renewing, and says nothing. The host may take its next lease. */
  abandon(): void {
    if (this.#hasEnded) return
    this.#stopRenewing()
    this.#endDeadline()
  }

  /** The answer to a renewal was lost, or another host has ended this lease. */
  async #readAgain(): Promise<void> {
    const { hosts, key } = this.#options
    const found = await read(hosts, this.#record.id)
    const record = found && decodeHost(found.value, key)?.record
    const isMine = record?.epoch === this.epoch && record.fencedBy === undefined
    if (found === undefined || record === undefined || !isMine) return this.#end()
    this.#record = record
    this.#revision = found.revision
  }

  async #renewUntilEnded(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      await sleep(this.#options.leaseMs / RENEWALS_PER_LEASE, undefined, { signal }).catch(() => {})
      // A failure means that NATS did not answer. The deadline decides how long that may last.
      if (!signal.aborted) await this.renew().catch(() => {})
    }
  }

  #check(): void {
    if (this.#options.deadline.hasPassed) this.#end()
  }

  #end(): void {
    if (this.#hasEnded) return
    this.#stopRenewing()
    this.#endDeadline()
    this.#options.onLost()
  }

  #extend(sent: Sent): void {
    const { deadline, fence, leaseMs } = this.#options
    this.#sent = sent
    deadline.set(sent, leaseMs * (1 - MARGIN))
    if (this.#acts) fence?.set(sent, leaseMs * (1 - MARGIN))
  }

  #endDeadline(): void {
    this.#options.deadline.end()
    this.#options.fence?.end()
  }

  #stopRenewing(): void {
    this.#hasEnded = true
    clearInterval(this.#checks)
    this.#stop.abort()
  }
}

/** Waits for a lease time. Returns the record if it is then as it was. Throws `conflict` when its host lives. */
async function unchanged(
  { hosts, key, leaseMs }: Pick<LeaseOptions, 'hosts' | 'key' | 'leaseMs'>,
  before: HostRecord,
  signal: AbortSignal | undefined,
): Promise<Versioned | undefined> {
  await sleep(leaseMs, undefined, signal && { signal })
  const found = await read(hosts, before.id)
  const now = found && decodeHost(found.value, key)?.record
  if (isSameRenewal(now, before)) return found
  throw new DormouseError('conflict', 'Another server uses the identity of this host in the cluster.', {
    hint: 'A copied data directory cannot join beside the original. Start with an empty one.',
  })
}
