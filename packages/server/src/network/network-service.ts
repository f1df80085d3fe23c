import { closeSync } from 'node:fs'
import { KeyedMutex, settledWithin } from '@dormouse/async'
import {
  DormouseError,
  hasErrorCode,
  isSandboxId,
  parseAllowRule,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import type { NetworkCountersAnswer, NetworkReportAnswer } from '@dormouse/contracts/http'
import type { EdgeSecret, Egress, EgressPolicy } from '@dormouse/egress'
import type {
  Burrow,
  Gate,
  GateKeeper,
  PortConnection,
  ParkedConnections as SavedConnections,
} from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { NetworkPolicy, SandboxRow } from '../store/sandbox-rows.ts'
import { ConnectionEnds } from './connection-ends.ts'
import type { DenialHistory } from './denial-history.ts'
import type { FailedLookupHistory } from './failed-lookup-history.ts'
import { IncomingConnections, type KeepOptions } from './incoming-connections.ts'
import { LostConnections } from './lost-connections.ts'
import { ParkedConnections } from './parked-connections.ts'

/** What this service uses of egress. */
export type EgressControl = Pick<
  Egress,
  | 'attach'
  | 'change'
  | 'check'
  | 'detach'
  | 'forget'
  | 'counters'
  | 'reportDenials'
  | 'park'
  | 'unpark'
  | 'resume'
  | 'endParked'
  | 'listOpen'
  | 'onLost'
>

export interface NetworkServiceOptions {
  /** Undefined when this host cannot open gates. */
  readonly egress: EgressControl | undefined
  /** See `Engine`. */
  readonly endAddon?: string | undefined
  readonly denials: DenialHistory
  readonly failedLookups: FailedLookupHistory
  /** The secrets of a sandbox, with their values. */
  readonly secretsOf: (row: SandboxRow) => readonly EdgeSecret[]
  /** Writes into the ledger of a sandbox what belongs to no transition. */
  readonly record: (id: SandboxId, entry: NewLedgerEntry) => void
  readonly log: Log
}

/** What this service needs to know of a sandbox. */
interface NetworkedSandbox {
  readonly id: SandboxId
  /** The row that holds now, or the row that a change in progress will write. */
  readonly effectiveRow: SandboxRow
}

/** The gate of one burrow, open or about to be. */
interface BurrowGate {
  readonly burrow: Burrow
  readonly keeper: GateKeeper | undefined
  /** Whether the sandbox was awake when it got this burrow. */
  readonly wasAwake: boolean
  gate: Gate | undefined
  isAttached: boolean
  /** It must not open any more. */
  isShut: boolean
  problem: string | undefined
}

/** How long a call into a sandbox waits for its gate before it continues without a network. */
const GATE_WAIT_MS = 5_000
const NOT_HERE =
  'The kernel of this host lacks a feature that sandbox networks need. Run `dormouse doctor` to see which.'
const NOT_OPENED =
  'The gate of this sandbox could not be opened. The server log has the reason. The next wake tries again.'
const NOTHING: NetworkCountersAnswer = { connections: 0, denied: 0, names: 0, bytesOut: 0, bytesIn: 0 }

/** Opens, changes and closes the gates of burrows. */
export class NetworkService implements Disposable {
  readonly #options: NetworkServiceOptions
  readonly #gates = new Map<SandboxId, BurrowGate>()
  /** Calls to egress happen one at a time for each sandbox, in order. */
  readonly #locks = new KeyedMutex()
  readonly #incoming: IncomingConnections
  readonly #lost: LostConnections
  /** Sandboxes whose last burrow was replaced while it was alive. */
  readonly #rollsBack = new Set<SandboxId>()
  readonly #parked: ParkedConnections | undefined
  #deletedTotal = NOTHING

  constructor(options: NetworkServiceOptions) {
    this.#options = options
    const { egress, endAddon, log } = options
    this.#incoming = new IncomingConnections(egress && endAddon)
    this.#lost = new LostConnections(options)
    const ends = egress && new ConnectionEnds(egress, this.#incoming)
    this.#parked = ends && new ParkedConnections({ ends, lost: this.#lost, log })
    egress?.onLost((id, to) => isSandboxId(id) && this.#addRollback(id, to))
  }

  /** Closes every gate. */
  [Symbol.dispose](): void {
    for (const { gate } of this.#gates.values()) gate?.close()
    this.#gates.clear()
    this.#parked?.[Symbol.dispose]()
  }

  /** Throws `invalid_argument` for a rule that can never allow anything on this host. */
  check({ mode, allow }: NetworkPolicy): void {
    this.#options.egress?.check({ mode, allow: allow.map(parseAllowRule), secrets: [] })
  }

  /**
   * Opens the gate of a burrow. Resolves when the gate is open, or cannot be opened: then the sandbox has no network,
   * and its view says why. Never rejects. A connection that arrives before egress is attached waits in the burrow.
   */
  async open(sandbox: NetworkedSandbox, burrow: Burrow): Promise<void> {
    const { egress } = this.#options
    const entry: BurrowGate = {
      ...{ burrow, keeper: this.#keeperOf(sandbox), wasAwake: isAwake(sandbox) },
      ...{ gate: undefined, isAttached: false, isShut: false, problem: undefined },
    }
    // At a rollback the earlier burrow ends when this one counts. Connections cannot move to it.
    if (this.#gates.has(sandbox.id)) this.#rollsBack.add(sandbox.id)
    this.#gates.set(sandbox.id, entry)
    if (egress === undefined) {
      entry.problem = NOT_HERE
      return
    }
    void burrow.ended.then(() => this.#end(sandbox.id, entry))
    // Started before the lock is taken: this takes time, and an earlier burrow of the sandbox may still hold the lock.
    const gate = burrow.openGate(entry.keeper)
    // Awaited under the lock; until then a rejection is not unhandled.
    gate.catch(() => {})
    const attached = this.#locks
      .run(sandbox.id, async () => this.#attach(egress, sandbox, entry, await gate))
      .catch((error: unknown) => this.#fail(sandbox.id, entry, error))
    const isOpenOrFailed = gate.then(
      () => {},
      () => attached,
    )
    await settledWithin(isOpenOrFailed, GATE_WAIT_MS)
  }

  async #attach(
    egress: EgressControl,
    sandbox: NetworkedSandbox,
    entry: BurrowGate,
    gate: Gate,
  ): Promise<void> {
    if (this.#gates.get(sandbox.id) !== entry || entry.isShut) {
      gate.close()
      closeSync(gate.tcp)
      closeSync(gate.dns)
      return
    }
    entry.gate = gate
    // Read now: the policy may have changed since the burrow started.
    await egress.attach(sandbox.id, gate, this.#policyOf(sandbox.effectiveRow))
    entry.isAttached = true
    // A frozen sandbox may still be stored, and wake from its snapshot again. One that was awake may fall asleep again.
    if (entry.wasAwake || isAwake(sandbox)) await this.#parked?.resume(sandbox.id, entry.burrow)
  }

  #keeperOf(sandbox: NetworkedSandbox): GateKeeper | undefined {
    const keeper = this.#parked?.keeperOf(sandbox.id, () => sandbox.effectiveRow.connections.keepAsleepMs)
    if (keeper === undefined) return undefined
    // A sandbox that falls asleep right after a wake: its connections continue first.
    const park = () => this.#locks.run(sandbox.id, () => keeper.park())
    return { park, unpark: () => keeper.unpark() }
  }

  /** A snapshot of a sandbox was taken. Its connections can continue in a burrow that is made from it. */
  saved(id: SandboxId, snapshotId: SnapshotId, connections: SavedConnections | undefined): void {
    this.#parked?.save(id, snapshotId, connections ?? [])
  }

  /** For the restore of this snapshot for the same sandbox. */
  connectionsIn(id: SandboxId, snapshotId: SnapshotId): SavedConnections | undefined {
    return this.#parked?.savedIn(id, snapshotId)
  }

  /** The connections of a sleeping sandbox that are kept, and for how long. */
  parkedOf(id: SandboxId): { readonly count: number; readonly leftMs: number } | undefined {
    return this.#parked?.describe(id)
  }

  /** A snapshot was taken for copies. The sandbox itself continues. Call before it is saved again. */
  copied(id: SandboxId, snapshotId: SnapshotId, connections: SavedConnections | undefined): void {
    this.#parked?.remember(id, snapshotId, connections ?? [])
  }

  /** The connections in a snapshot, which copies of it lose: they are its sandbox's. */
  lostByCopies(id: SandboxId, snapshotId: SnapshotId): readonly string[] {
    return this.#lost.inSnapshot(id, snapshotId)
  }

  /** A copy began, and has lost these connections. */
  forked(id: SandboxId, lost: readonly string[]): void {
    this.#lost.add(id, 'fork', lost)
  }

  /** Connections that the sandbox has lost since it last left a burrow, in a sentence. */
  lossOf(id: SandboxId): string | undefined {
    return this.#lost.describe(id)
  }

  /** A connection to a port of an awake sandbox outlives its sleeps from now on, as far as its policy allows. */
  keep(id: SandboxId, connection: PortConnection, options?: KeepOptions): void {
    const burrow = this.#gates.get(id)?.burrow
    if (burrow !== undefined) this.#incoming.keep(id, burrow, connection, options)
  }

  /** The sandbox is about to sleep: connections whose client waits for an answer will end. */
  endAwaited(id: SandboxId): void {
    this.#incoming.endAwaited(id)
  }

  /** The frozen sandbox wakes: its connections continue. Never rejects. */
  thawed(id: SandboxId, burrow: Burrow): void {
    const resumed = this.#locks.run(id, async () => this.#parked?.resume(id, burrow))
    resumed.catch((error: unknown) =>
      this.#options.log.error({ sandboxId: id, err: error }, 'connections of a sandbox do not continue'),
    )
  }

  #fail(id: SandboxId, entry: BurrowGate, error: unknown): void {
    // The burrow ended in the meantime and needs no gate.
    if (this.#gates.get(id) !== entry) return
    entry.gate?.close()
    entry.gate = undefined
    entry.problem = explain(error)
    this.#options.log.error({ sandboxId: id, err: error }, 'the gate of a sandbox could not be opened')
    this.#options.record(id, { event: 'failed', cause: 'network', detail: entry.problem })
  }

  #end(id: SandboxId, entry: BurrowGate): void {
    entry.gate?.close()
    const isCurrent = this.#gates.get(id) === entry
    if (isCurrent) this.#rollsBack.delete(id)
    this.#addRollback(id, this.#incoming.leaveBurrow(id, entry.burrow))
    if (!isCurrent) return
    this.#gates.delete(id)
    this.#detach(id)
  }

  /** A sleep names its losses when it is saved; sandboxes that are deleted or died need none. */
  #addRollback(id: SandboxId, to: readonly string[]): void {
    if (this.#rollsBack.has(id)) this.#lost.add(id, 'rollback', to)
  }

  #detach(id: SandboxId): void {
    const detached = this.#locks.run(id, async () => this.#options.egress?.detach(id))
    detached.catch((error: unknown) =>
      this.#options.log.error({ sandboxId: id, err: error }, 'connections of a sandbox could not be closed'),
    )
  }

  /**
   * Post: the policy of `effectiveRow` holds, and connections that it forbids are closed. On failure the caller sets
   * `effectiveRow` back and calls this again; if that fails too, the caller shuts the gate.
   */
  async change(sandbox: NetworkedSandbox): Promise<void> {
    await this.#locks.run(sandbox.id, async () => {
      if (this.#gates.get(sandbox.id)?.isAttached !== true) return
      await this.#options.egress?.change(sandbox.id, this.#policyOf(sandbox.effectiveRow))
    })
  }

  /** Opens another gate of the same burrow after the egress worker died and took the first gate's sockets with it. */
  async reopen(id: string): Promise<Gate> {
    const entry = isSandboxId(id) ? this.#gates.get(id) : undefined
    if (entry === undefined) throw new DormouseError('burrow_ended', `${id} has no burrow.`)
    entry.gate?.close()
    entry.gate = await entry.burrow.openGate(entry.keeper)
    return entry.gate
  }

  /** Closes the gate until the sandbox gets its next burrow. */
  shut(id: SandboxId): void {
    const entry = this.#gates.get(id)
    if (entry === undefined) return
    entry.gate?.close()
    entry.isShut = true
    entry.isAttached = false
    entry.problem = NOT_OPENED
    this.#detach(id)
  }

  /** Why an awake sandbox has no network. */
  problemOf(id: SandboxId): string | undefined {
    return this.#gates.get(id)?.problem
  }

  counters(id: SandboxId): NetworkCountersAnswer {
    const { egress } = this.#options
    return egress === undefined ? NOTHING : pick(egress.counters(id))
  }

  /** With the denials until now: the caller may have just seen a connection fail. */
  async report(id: SandboxId): Promise<Pick<NetworkReportAnswer, 'counters' | 'denied' | 'failedLookups'>> {
    const { egress, denials, failedLookups } = this.#options
    await egress?.reportDenials()
    return {
      counters: this.counters(id),
      denied: denials.recent(id),
      failedLookups: failedLookups.recent(id),
    }
  }

  /** The sum over `ids` and all sandboxes that were deleted since the server started. */
  total(ids: Iterable<SandboxId>): NetworkCountersAnswer {
    return [...ids].reduce((sum, id) => plus(sum, this.counters(id)), this.#deletedTotal)
  }

  forget(id: SandboxId): void {
    this.#deletedTotal = plus(this.#deletedTotal, this.counters(id))
    this.#options.denials.forget(id)
    this.#options.failedLookups.forget(id)
    this.#parked?.delete(id)
    this.#incoming.forget(id)
    this.#lost.forget(id)
    this.#rollsBack.delete(id)
    // Cannot reject: `forget` only posts a message.
    void this.#locks.run(id, () => this.#options.egress?.forget(id))
  }

  #policyOf(row: SandboxRow): EgressPolicy {
    const { mode, allow, deny } = row.network
    const rules = { allow: allow.map(parseAllowRule), deny: deny?.map(parseAllowRule) }
    return { mode, ...rules, secrets: this.#options.secretsOf(row), owner: row.owner }
  }
}

function isAwake({ effectiveRow }: NetworkedSandbox): boolean {
  return effectiveRow.state === 'running'
}

/** Callers may see who has taken an address that the gate needs. Other reasons go to the log only. */
function explain(error: unknown): string {
  return hasErrorCode(error, 'in_use') ? `${error.message} ${error.hint}` : NOT_OPENED
}

function pick({
  connections,
  denied,
  names,
  bytesOut,
  bytesIn,
}: NetworkCountersAnswer): NetworkCountersAnswer {
  return { connections, denied, names, bytesOut, bytesIn }
}

function plus(a: NetworkCountersAnswer, b: NetworkCountersAnswer): NetworkCountersAnswer {
  return {
    connections: a.connections + b.connections,
    denied: a.denied + b.denied,
    names: a.names + b.names,
    bytesOut: a.bytesOut + b.bytesOut,
    bytesIn: a.bytesIn + b.bytesIn,
  }
}
