import { KeyedMutex } from '@dormouse/async'
import {
  chooseHost,
  type Depot,
  type Directory,
  diskProblemOf,
  type HostRecord,
  type Hosts,
  type Located,
  type Replica,
} from '@dormouse/cluster'
import { DormouseError, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { movedAway } from './cluster-errors.ts'
import { partsInDepot } from './depot-lists.ts'
import type { OwnedSandboxes } from './owned-sandboxes.ts'
import { reasonToStay } from './replication.ts'
import { recordAncestors } from './shared-snapshots.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'

export interface TakeOverOptions {
  readonly hostId: string
  readonly directory: Directory
  readonly hosts: Hosts
  readonly owned: OwnedSandboxes
  readonly depot: Depot
  readonly transfer: SnapshotCarrier
  readonly deps: SandboxDependencies
  readonly onFetched: (id: SandboxId) => void
  /** Whether this host has a lease. */
  readonly isHeld: () => boolean
}

/** Where a request for a sandbox is served. */
export type Place =
  | { readonly kind: 'here' }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'elsewhere'; readonly host: HostRecord }

/** Brings sandboxes of lost hosts, and those that were given to this host, onto this host. */
export class TakeOver {
  readonly #options: TakeOverOptions
  readonly #locks = new KeyedMutex()

  constructor(options: TakeOverOptions) {
    this.#options = options
  }

  /** Finds where a sandbox is, and brings it here when its host is lost. Throws `host_unavailable`. */
  async locate(id: string, { isFresh }: { isFresh: boolean }): Promise<Place> {
    const { deps, directory, hosts, hostId } = this.#options
    if (deps.sandboxes.isHere(id)) return { kind: 'here' }
    const located = (isFresh ? undefined : directory.find(id)) ?? (await directory.read(id))
    if (located === undefined) return { kind: 'unknown' }
    const host = hosts.find(located.entry.host)
    if (host !== undefined && host.id !== hostId && hosts.stateOf(host.id) === 'alive')
      return { kind: 'elsewhere', host }
    return await this.#locks.run(id, () => this.#bring(id as SandboxId))
  }

  /** Brings a sandbox to this host and no other. False when it is another host's. Throws `host_unavailable`. */
  async bringHere(id: SandboxId): Promise<boolean> {
    const place = await this.#locks.run(id, () => this.#bring(id, { isOnlyHere: true }))
    return place.kind === 'here'
  }

  async #bring(id: SandboxId, { isOnlyHere = false } = {}): Promise<Place> {
    const { deps, directory, hosts, hostId, owned } = this.#options
    if (deps.sandboxes.isHere(id)) return { kind: 'here' }
    const located = await directory.read(id)
    if (located === undefined) return { kind: 'unknown' }
    const { entry } = located
    const isGiven = entry.host === hostId
    if (!isGiven && hosts.stateOf(entry.host) === 'alive') {
      const host = hosts.find(entry.host)
      if (host !== undefined) return { kind: 'elsewhere', host }
    }
    // Its former copy is still being removed.
    if (deps.sandboxes.find(id) !== undefined) throw movedAway(id)
    const other = this.#placeOf(located, isOnlyHere)
    if (other !== undefined) {
      if (isGiven) await this.#giveOn(located, other)
      return { kind: 'elsewhere', host: other }
    }
    if (!isGiven && !(await hosts.end(entry.host, entry.epoch))) throw stillHeld(entry.host)
    if (!this.#options.isHeld()) throw stillHeld(entry.host)
    const next = {
      ...entry,
      host: hostId,
      epoch: owned.epoch,
      generation: entry.generation + (isGiven ? 0 : 1),
    }
    const claimed = await directory.change(located, next)
    if (claimed === undefined || !(isGiven || (await directory.stands(claimed)))) throw stillHeld(entry.host)
    // What is given away sleeps. Otherwise this host has claimed it before, and did not get to import it.
    const wasLost = entry.state !== 'standby'
    await this.#import(claimed, { wasLost, from: entry.host, isGiven: isGiven && !wasLost })
    return { kind: 'here' }
  }

  /** This host was given the sandbox, and cannot take it any more. */
  async #giveOn({ id, entry, revision }: Located, { id: host, epoch }: HostRecord): Promise<void> {
    const { directory, owned, isHeld } = this.#options
    const next = { ...entry, host, epoch, generation: entry.generation + 1 }
    if (!isHeld() || (await directory.change({ id, entry, revision }, next)) === undefined)
      throw stillHeld(entry.host)
    owned.forget(id)
  }

  /** Another host than this one, when this one cannot take the sandbox. Throws when no host can. */
  #placeOf(located: Located, isOnlyHere: boolean): HostRecord | undefined {
    const { hosts, hostId, transfer } = this.#options
    const { replica, state, head, host: from, row } = located.entry
    if (replica === undefined)
      throw notReplicated(from, reasonToStay(row as SandboxRow) ?? 'it was never replicated to the depot')
    // What is newer than the replica is on the disk of its host, and comes back with it.
    if (state === 'standby' && head !== replica.snapshotId)
      throw notReplicated(from, 'its newest snapshot is not in the depot')
    const choose = (isOnlySelf: boolean) => {
      const among = hosts
        .all()
        .filter(({ id }) => (isOnlySelf ? id === hostId : hosts.stateOf(id) === 'alive'))
      return chooseHost(among, {
        memoryBytes: (row as SandboxRow).limits.memoryBytes,
        preferred: hostId,
        isNear: ({ holds }) => holds?.includes(located.id) === true,
        arrivingBytes: (host) => transfer.arrivingBytes(replica, host),
        problemOf: (host) => transfer.problemOf(replica.needs, host),
      })
    }
    // What was given to this host stays here if it can: the host that gave it is nearest for long.
    const here = choose(true)
    const isEnough = isOnlyHere || (from === hostId && here.chosen !== undefined)
    const { chosen, candidates } = isEnough ? here : choose(false)
    if (chosen !== undefined) return chosen.id === hostId ? undefined : chosen
    const reasons = candidates.map(({ record, problem }) => `${record.id}: ${problem}`)
    throw new DormouseError('host_unavailable', `No host can take the sandbox. ${reasons.join('; ')}.`, {
      hint: this.#hintFor(replica),
      details: { hosts: candidates.map(({ record, problem }) => ({ id: record.id, problem })) },
    })
  }

  /** What an operator can do when no host can take a sandbox. */
  #hintFor(replica: Replica): string {
    const { hosts, transfer } = this.#options
    const able = hosts.all().filter((host) => transfer.problemOf(replica.needs, host) === undefined)
    const isAlive = ({ id }: HostRecord) => hosts.stateOf(id) === 'alive'
    const full = able.filter(
      (host) => isAlive(host) && diskProblemOf(host, transfer.arrivingBytes(replica, host)) !== undefined,
    )
    const away = able.filter((host) => !isAlive(host))
    const name = (some: readonly HostRecord[]) => some.map(({ id }) => id).join(', ')
    if (full.length > 0) return `Make room on the disk of a host that can restore it: ${name(full)}.`
    if (away.length > 0) return `Start one of the hosts that can restore it: ${name(away)}.`
    return 'Add a host that can restore it.'
  }

  async #import(located: Located, how: { wasLost: boolean; from: string; isGiven: boolean }): Promise<void> {
    const { deps, transfer, depot, owned, isHeld } = this.#options
    const { replica } = located.entry
    if (replica === undefined) throw notReplicated(located.entry.host, 'it was never replicated to the depot')
    const began = performance.now()
    const snapshotId = replica.snapshotId as SnapshotId
    const { needs, list } = replica
    await transfer.import(snapshotId, { needs, parts: await partsInDepot(depot, list), origin: list })
    this.#options.onFetched(located.id as SandboxId)
    const snapshot = await deps.engine.getSnapshot(snapshotId)
    const before = located.entry.row as SandboxRow
    const now = deps.clock.wallMs()
    const row: SandboxRow = {
      ...before,
      ...{
        state: 'standby',
        tier: 'stored',
        head: snapshotId,
        headOf: snapshot.sandboxId,
        burrow: undefined,
      },
      ...{ stateSince: now, lostSince: how.wasLost ? snapshot.createdAt.getTime() : before.lostSince },
      ...{
        wakesAt: undefined,
        diskBytes: undefined,
        diskFiles: undefined,
        pausedAtBytes: before.pausedAtBytes,
      },
    }
    const at = snapshot.createdAt.toISOString()
    // The import takes a while. A host that had no lease for a moment may not own the sandbox any more.
    if (!isHeld() || owned.epoch !== located.entry.epoch) throw stillHeld(how.from)
    deps.db.transaction(() => {
      deps.snapshots.put(snapshot, { owner: row.owner, isKept: false })
      deps.rows.put(row)
      recordAncestors(deps, row.id, located.entry.ancestors ?? [])
      deps.ledger.add(row.id, now, {
        event: how.wasLost ? 'lost' : 'stored',
        cause: how.isGiven ? 'moved' : 'host lost',
        tier: 'stored',
        latencyMs: performance.now() - began,
        detail: `${how.isGiven ? 'Moved from another host' : `Host ${how.from} was lost`}. Back to ${at}.`,
      })
    })
    owned.hold(located)
    // Before anything waits: a host that loses its lease now finds the sandbox among its own.
    const sandbox = new Sandbox(deps, row, 'another host')
    deps.sandboxes.add(sandbox)
    owned.publish(row)
    // Without that, a name that it was about to get would only stay taken.
    await sandbox.exclusive(() => owned.settleName(sandbox.row)).catch(() => {})
  }
}

function stillHeld(host: string): DormouseError {
  return new DormouseError('host_unavailable', `The sandbox is on host ${host}, which does not answer.`, {
    details: { host, retryAfterMs: 1_000 },
  })
}

function notReplicated(host: string, why: string): DormouseError {
  return new DormouseError(
    'host_unavailable',
    `The sandbox is on host ${host}, which does not answer, and ${why}.`,
    { hint: 'Start that host again. The state of the sandbox is on its disk.', details: { host } },
  )
}
