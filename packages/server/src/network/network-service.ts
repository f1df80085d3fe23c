import { closeSync } from 'node:fs'
import { DormouseError, hasErrorCode, isSandboxId, parseAllowRule, type SandboxId } from '@dormouse/contracts'
import type { NetworkCountersAnswer, NetworkReportAnswer } from '@dormouse/contracts/http'
import type { EdgeSecret, Egress, EgressPolicy } from '@dormouse/egress'
import type { Burrow, Gate } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { NetworkPolicy, SandboxRow } from '../store/sandbox-rows.ts'
import type { DenialHistory } from './denial-history.ts'

/** What decides and carries. */
export type EgressControl = Pick<Egress, 'attach' | 'change' | 'check' | 'detach' | 'forget' | 'counters'>

export interface NetworkServiceOptions {
  /** Undefined: this host cannot open gates. */
  readonly egress: EgressControl | undefined
  readonly denials: DenialHistory
  /** The values behind the secrets that a sandbox may use. */
  readonly secretsOf: (row: SandboxRow) => readonly EdgeSecret[]
  /** Tells the ledger of a sandbox that it has no network. */
  readonly recordFailure: (id: SandboxId, detail: string) => void
  readonly log: Log
}

interface Tenant {
  readonly id: SandboxId
  /** What is to hold, whenever it is looked at: its row, or what a change that is under way makes of it. */
  readonly aim: SandboxRow
}

/** The gate of one burrow. */
interface Opening {
  readonly burrow: Burrow
  gate: Gate | undefined
  isAttached: boolean
  problem: string | undefined
}

/** A call that waits for the network of its sandbox goes on without it after this. */
const PATIENCE_MS = 5_000
const NOT_HERE = 'The kernel of this host lacks what networks of sandboxes need; `dormouse doctor` says what.'
const NOT_OPENED =
  'Its way out could not be opened; the server log has the reason. The next wake tries again.'
const NOTHING: NetworkCountersAnswer = { connections: 0, denied: 0, names: 0, bytesOut: 0, bytesIn: 0 }

/** Gives every burrow that a sandbox lives in its way out, and takes it away. */
export class NetworkService implements Disposable {
  readonly #options: NetworkServiceOptions
  readonly #openings = new Map<SandboxId, Opening>()
  readonly #turns = new Map<SandboxId, Promise<unknown>>()
  #deletedTotal = NOTHING

  constructor(options: NetworkServiceOptions) {
    this.#options = options
  }

  /** Nothing leaves any sandbox any more. */
  [Symbol.dispose](): void {
    for (const { gate } of this.#openings.values()) gate?.close()
    this.#openings.clear()
  }

  /** Throws `invalid_argument` for a rule that could never allow anything here. */
  check({ mode, allow }: NetworkPolicy): void {
    this.#options.egress?.check({ mode, allow: allow.map(parseAllowRule), secrets: [] })
  }

  /**
   * Resolves when the burrow has its way out, or will not have one: then the sandbox lives without, and says why. Never rejects. Who connects
   * before the gate has somebody to answer at it waits inside for that.
   */
  async open(tenant: Tenant, burrow: Burrow): Promise<void> {
    const { egress } = this.#options
    const opening: Opening = { burrow, gate: undefined, isAttached: false, problem: undefined }
    this.#openings.set(tenant.id, opening)
    if (egress === undefined) {
      opening.problem = NOT_HERE
      return
    }
    void burrow.ended.then(() => this.#end(tenant.id, opening))
    // Begun before it is this one's turn: an earlier burrow of the sandbox may still be in the way, and this takes time of its own.
    const gate = burrow.openGate()
    gate.catch(() => {})
    const opened = this.#inTurn(tenant.id, async () =>
      this.#attach(egress, tenant, opening, await gate),
    ).catch((error: unknown) => this.#fail(tenant.id, opening, error))
    let timer: NodeJS.Timeout | undefined
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, PATIENCE_MS).unref()
    })
    await Promise.race([gate.then(() => {}).catch(() => opened), patience])
    clearTimeout(timer)
  }

  async #attach(egress: EgressControl, tenant: Tenant, opening: Opening, gate: Gate): Promise<void> {
    if (this.#openings.get(tenant.id) !== opening) {
      gate.close()
      closeSync(gate.tcp)
      closeSync(gate.dns)
      return
    }
    opening.gate = gate
    // Read now: its policy may have changed since the burrow came.
    await egress.attach(tenant.id, gate, this.#policyOf(tenant.aim))
    opening.isAttached = true
  }

  #fail(id: SandboxId, opening: Opening, error: unknown): void {
    // What ended meanwhile needs no way out.
    if (this.#openings.get(id) !== opening) return
    opening.gate?.close()
    opening.gate = undefined
    opening.problem = explain(error)
    this.#options.log.error({ sandboxId: id, err: error }, 'a sandbox has no network')
    this.#options.recordFailure(id, opening.problem)
  }

  #end(id: SandboxId, opening: Opening): void {
    opening.gate?.close()
    if (this.#openings.get(id) !== opening) return
    this.#openings.delete(id)
    this.#detach(id)
  }

  #detach(id: SandboxId): void {
    const detached = this.#inTurn(id, async () => this.#options.egress?.detach(id))
    detached.catch((error: unknown) =>
      this.#options.log.error({ sandboxId: id, err: error }, 'connections of a sandbox were not ended'),
    )
  }

  /**
   * Post: what the sandbox aims at holds, and connections that it does not allow have ended. On failure the caller aims at what was before
   * and calls this again; if that fails too, the sandbox has no network rather than too much.
   */
  async change(tenant: Tenant): Promise<void> {
    await this.#inTurn(tenant.id, async () => {
      if (this.#openings.get(tenant.id)?.isAttached !== true) return
      await this.#options.egress?.change(tenant.id, this.#policyOf(tenant.aim))
    })
  }

  /** Another gate of the same burrow, for when who answered at the first one has died. */
  async reopen(id: string): Promise<Gate> {
    const opening = isSandboxId(id) ? this.#openings.get(id) : undefined
    if (opening === undefined) throw new DormouseError('burrow_ended', `${id} has no burrow.`)
    opening.gate?.close()
    opening.gate = await opening.burrow.openGate()
    return opening.gate
  }

  /** The way out is closed until the next burrow. */
  shut(id: SandboxId): void {
    const opening = this.#openings.get(id)
    if (opening === undefined) return
    opening.gate?.close()
    opening.isAttached = false
    opening.problem = NOT_OPENED
    this.#detach(id)
  }

  /** Why it reaches nothing although it is awake. */
  problemOf(id: SandboxId): string | undefined {
    return this.#openings.get(id)?.problem
  }

  counters(id: SandboxId): NetworkCountersAnswer {
    const { egress } = this.#options
    return egress === undefined ? NOTHING : pick(egress.counters(id))
  }

  report(id: SandboxId): Pick<NetworkReportAnswer, 'counters' | 'denied'> {
    return { counters: this.counters(id), denied: this.#options.denials.recent(id) }
  }

  /** Of all sandboxes that there are and were, since the server began. */
  total(ids: Iterable<SandboxId>): NetworkCountersAnswer {
    return [...ids].reduce((sum, id) => plus(sum, this.counters(id)), this.#deletedTotal)
  }

  forget(id: SandboxId): void {
    this.#deletedTotal = plus(this.#deletedTotal, this.counters(id))
    this.#options.denials.forget(id)
    void this.#inTurn(id, async () => this.#options.egress?.forget(id)).finally(() => this.#turns.delete(id))
  }

  #policyOf(row: SandboxRow): EgressPolicy {
    const { mode, allow } = row.network
    return { mode, allow: allow.map(parseAllowRule), secrets: this.#options.secretsOf(row), owner: row.owner }
  }

  /** One thing at a time for each sandbox, in the order in which they were asked for. */
  #inTurn<Value>(id: SandboxId, work: () => Promise<Value>): Promise<Value> {
    const before = this.#turns.get(id)
    const turn = before === undefined ? work() : before.then(work)
    const settled = turn.catch(() => {})
    this.#turns.set(id, settled)
    void settled.then(() => {
      if (this.#turns.get(id) === settled) this.#turns.delete(id)
    })
    return turn
  }
}

/** Who has taken what the gate needs can be told; anything else is for the log. */
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
