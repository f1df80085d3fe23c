import {
  canMove,
  DormouseError,
  type SandboxId,
  type SandboxState,
  type SnapshotId,
} from '@dormouse/contracts'
import type { SandboxAnswer } from '@dormouse/contracts/http'
import type { Burrow } from '@dormouse/engine'
import { Moment } from '../clock/moment.ts'
import type { IntentKind } from '../store/intent-rows.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { Debts } from './debts.ts'
import { dropSnapshot } from './drop-snapshot.ts'
import { endBurrow } from './end-burrow.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'
import { Turns } from './turns.ts'
import { WorkBook } from './work-book.ts'

export interface Move {
  /** Fields that change with the state. */
  readonly change?: Partial<SandboxRow>
  /** Where it lives once this is written; `null`: in no burrow. */
  readonly arrival?: Arrival | null
  /** What begins with this; `null`: what was begun has come to its end. */
  readonly intent?: IntentKind | null
  readonly entry?: NewLedgerEntry
  /** What else has to be written in the same transaction. */
  readonly alongside?: () => void
  /** A power cut a moment later may take it back: whoever finds the row as it was before goes on from there without loss. */
  readonly isQuick?: boolean
}

export interface Arrival {
  readonly burrow: Burrow
  /** With everything that the one before knew. */
  readonly isContinued: boolean
  /** An earlier server has counted what it used so far. */
  readonly isAdopted?: boolean
}

/**
 * What one sandbox is made of: its row, its burrow while it has one, the order of turns, and what keeps it awake. The transitions work
 * on this; whoever changes `row` or `burrow` has an exclusive turn.
 */
export class SandboxBody {
  readonly parts: SandboxDependencies
  readonly turns = new Turns()
  readonly work: WorkBook
  /** While there are any, row and burrow are those from before. */
  readonly debts: Debts
  /** Dead ones whose files could not be saved: they stay where they are, for the next start to try again. */
  readonly leftovers = new Set<Burrow>()
  /** Nothing of it is left but what its head still takes on disk. */
  isRemoved = false
  #row: SandboxRow
  #aim: SandboxRow | undefined
  #burrow: Burrow | undefined
  /** The last one whose processes ended by themselves. */
  #dead: Burrow | undefined
  #waiters: (() => void)[] = []
  #connecting: Promise<void> | undefined
  #lastSample: { readonly at: number; readonly cpuMs: number } | undefined
  #runningSince: number | undefined
  readonly #created: Moment
  #stateSince: Moment
  /** Why the last attempt to save it failed, and when to try again, by the monotonic clock. */
  refusal: { reason: string; retryAtMs: number; count: number } | undefined

  /** `isRecorded`: an earlier server wrote the row. */
  constructor(parts: SandboxDependencies, row: SandboxRow, { isRecorded = false } = {}) {
    const { clock } = parts
    const at = (wallMs: number) => (isRecorded ? Moment.recorded(clock, wallMs) : Moment.now(clock))
    this.parts = parts
    this.#row = row
    this.#created = at(row.createdAt)
    this.#stateSince = at(row.stateSince)
    this.work = new WorkBook(at(row.lastActiveAt), clock)
    this.debts = new Debts(clock)
  }

  get ageMs(): number {
    return this.#created.elapsedMs
  }

  /** How long it has been in its state. */
  get stateMs(): number {
    return this.#stateSince.elapsedMs
  }

  get id(): SandboxId {
    return this.#row.id
  }

  get row(): SandboxRow {
    return this.#row
  }

  /** The row as a change that is under way makes it, already in force but not written; otherwise as it is. */
  get aim(): SandboxRow {
    return this.#aim ?? this.#row
  }

  aimAt(aim: SandboxRow | undefined): void {
    this.#aim = aim
  }

  get burrow(): Burrow | undefined {
    return this.#burrow
  }

  /** Until its burrow has its way out and what its secrets need: what is called before that would find neither. Undefined: it has. */
  preparing(burrow: Burrow): Promise<unknown> | undefined {
    const secrets = this.parts.secrets.prepare(this, burrow)
    return secrets === undefined ? this.#connecting : Promise.all([secrets, this.#connecting])
  }

  get isDeleted(): boolean {
    return this.#row.state === 'deleting'
  }

  /** Writes the way through one or more states, each of which the table must allow, in one transaction. */
  move(to: SandboxState | readonly SandboxState[], move: Move = {}): void {
    let { state } = this.#row
    for (const next of typeof to === 'string' ? [to] : to) {
      if (!canMove({ from: state, to: next }))
        throw new DormouseError('internal', `A sandbox cannot go from ${state} to ${next}.`)
      state = next
    }
    const { clock } = this.parts
    this.#countRunning()
    this.write({ ...move, change: { state, stateSince: clock.wallMs(), ...move.change } })
    this.#stateSince = Moment.now(clock)
    this.#runningSince = state === 'running' ? clock.monotonicMs() : undefined
    if (state === 'running' || state === 'deleting') this.#tellWaiters()
  }

  /** Writes without a change of state. */
  write({ change, arrival, intent, entry, alongside, isQuick = false }: Move): void {
    const { db, rows, intents, ledger, clock, listeners } = this.parts
    const burrow = arrival === undefined ? this.#burrow : arrival?.burrow
    const { lastActiveAt } = this.work
    const row: SandboxRow = {
      ...this.#row,
      lastActiveAt,
      burrow: burrow?.id,
      ...(change?.head !== undefined && { headOf: this.id }),
      ...change,
    }
    const put = () => {
      rows.put(row, this.#row)
      if (intent === null) intents.end(row.id)
      else if (intent !== undefined) intents.begin(row.id, intent, clock.wallMs())
      if (entry !== undefined) ledger.add(row.id, clock.wallMs(), entry)
      alongside?.()
      if (change?.head !== undefined) this.#requireOwnHead(row)
    }
    if (isQuick) db.quickTransaction(put)
    else db.transaction(put)
    this.#row = row
    const left = this.#burrow
    if (arrival === null) this.leave()
    else if (arrival !== undefined) this.enter(arrival)
    if (left !== undefined && left !== this.#burrow && !this.leftovers.has(left)) this.#endLater(left)
    if (entry !== undefined) for (const listener of listeners) listener.recorded?.(row, entry)
  }

  /** A head is a snapshot of this sandbox, or of the one that a fork or a rollback names. Called in the transaction that writes it. */
  #requireOwnHead({ head, headOf }: SandboxRow): void {
    const snapshot = head && this.parts.snapshots.get(head)
    if (snapshot?.sandboxId === headOf) return
    throw new DormouseError('internal', `Snapshot ${head} is not of sandbox ${headOf}.`)
  }

  /** A burrow leaves the books only by being ended. The engine has ended most by now; ending one again is fine. */
  #endLater(burrow: Burrow): void {
    const { background } = this.parts
    const ending = endBurrow(this.parts, burrow).finally(() => background.delete(ending))
    background.add(ending)
  }

  /** It is awake from being frozen, which was written down before. */
  thawed(latencyMs: number): void {
    this.parts.ledger.wakeTook(this.id, latencyMs)
    const row = this.#row
    // Whoever woke it comes first.
    setImmediate(() => {
      for (const listener of this.parts.listeners) listener.woke?.(row, { tier: 'frozen', latencyMs })
    })
  }

  /**
   * Writes down what has come of something that has happened: `pay` may throw, and is called again until it does not. Throws what stood in the
   * way, and then it is owed.
   */
  async conclude(pay: () => void | Promise<void>, burrow?: Burrow): Promise<void> {
    try {
      await pay()
    } catch (error) {
      this.debts.add({ pay, burrow })
      throw error
    }
  }

  /** From now on it lives in this one. The row says so already, or is written next. */
  enter({ burrow, isContinued, isAdopted }: Arrival): void {
    this.#burrow = burrow
    if (!isContinued) this.parts.secrets.forget(this)
    this.#lastSample = isAdopted === true ? undefined : { at: this.parts.clock.monotonicMs(), cpuMs: 0 }
    if (this.#row.state === 'running') this.#runningSince ??= this.parts.clock.monotonicMs()
    void burrow.ended.then((end) => {
      if (end.reason !== 'killed' && end.reason !== 'agent_ended') return
      // Until its loss is written down no call is sent there.
      if (this.onDeath !== undefined) this.#dead = burrow
      this.onDeath?.(burrow, end)
    })
    const connecting = this.parts.network.open(this, burrow).finally(() => {
      if (this.#connecting === connecting) this.#connecting = undefined
    })
    this.#connecting = connecting
    for (const listener of this.parts.listeners) listener.awake?.(this.#row, { isContinued })
  }

  /** Tells the listeners what its processes used since the last time, and answers their share of a CPU. Called before they go, too. */
  async sample(): Promise<number | undefined> {
    const burrow = this.#burrow
    const usage = await burrow?.usage().catch(() => undefined)
    if (usage === undefined || this.#burrow !== burrow) return undefined
    this.#countRunning()
    const at = this.parts.clock.monotonicMs()
    const last = this.#lastSample
    this.#lastSample = { at, cpuMs: usage.cpuMs }
    if (last === undefined) return undefined
    const ms = at - last.at
    const cpuMs = Math.max(0, usage.cpuMs - last.cpuMs)
    const sample = { ms, cpuMs, memoryBytes: usage.memoryBytes }
    for (const listener of this.parts.listeners) listener.sampled?.(this.#row, sample)
    return ms === 0 ? undefined : cpuMs / ms
  }

  #countRunning(): void {
    if (this.#runningSince === undefined) return
    const now = this.parts.clock.monotonicMs()
    const ms = now - this.#runningSince
    this.#runningSince = now
    for (const listener of this.parts.listeners) listener.ran?.(this.#row, ms)
  }

  leave(): void {
    this.#burrow = undefined
  }

  /** Called when its processes ended although nobody asked for that. */
  onDeath: ((burrow: Burrow, end: Awaited<Burrow['ended']>) => void) | undefined

  /** The burrow it runs in. Throws when the sandbox is gone. */
  runningBurrow(): Burrow | undefined {
    if (this.isDeleted) throw gone(this.id)
    const isThere = this.#row.state === 'running' && this.debts.isEmpty && this.#burrow !== this.#dead
    return isThere ? this.#burrow : undefined
  }

  /** The burrow it runs in, as soon as it does. Does not wake it. */
  async nextBurrow(signal: AbortSignal | undefined): Promise<Burrow> {
    for (;;) {
      const burrow = this.runningBurrow()
      if (burrow !== undefined) return burrow
      await new Promise<void>((resolve, reject) => {
        const giveUp = () => reject(new DormouseError('cancelled', 'The caller gave up waiting.'))
        if (signal?.aborted) return giveUp()
        signal?.addEventListener('abort', giveUp, { once: true })
        this.#waiters.push(() => {
          signal?.removeEventListener('abort', giveUp)
          resolve()
        })
      })
    }
  }

  #tellWaiters(): void {
    for (const tell of this.#waiters.splice(0)) tell()
  }

  /** Nobody has to wait for the disk to be freed. */
  dropSnapshotLater(id: SnapshotId | undefined): void {
    const { background } = this.parts
    const drop = this.dropSnapshot(id).finally(() => background.delete(drop))
    background.add(drop)
  }

  dropSnapshot(id: SnapshotId | undefined): Promise<void> {
    return dropSnapshot(this.parts, id)
  }

  view(): SandboxAnswer {
    const row = this.#row
    return {
      id: row.id,
      name: row.name,
      state: row.state,
      tier: row.tier,
      template: row.template,
      metadata: row.metadata,
      limits: row.limits,
      volumes: row.volumes.map(({ volume, path, readOnly }) => ({ volume, path, readOnly })),
      idleTimeoutMs: row.idleTimeoutMs,
      storeAfterMs: row.storeAfterMs,
      expires: row.expires,
      ephemeral: row.ephemeral,
      secrets: row.secrets,
      network: { ...row.network, unavailable: this.parts.network.problemOf(row.id) },
      createdAt: new Date(row.createdAt).toISOString(),
      lastActiveAt: new Date(this.work.lastActiveAt).toISOString(),
      stateSince: new Date(row.stateSince).toISOString(),
      headSnapshotId: row.head,
      forkedFrom: row.forkedFrom,
      lostSince: row.lostSince === undefined ? undefined : new Date(row.lostSince).toISOString(),
      damage: this.parts.quarantine.damageOf(row),
    }
  }
}

export function gone(id: string): DormouseError {
  return new DormouseError('not_found', `There is no sandbox ${id}.`, {
    hint: 'It may have been deleted or have expired. List what there is.',
  })
}
