import type { SandboxId } from '@dormouse/contracts'
import type { ActivityAnswer, FamilyAnswer, OverviewAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { RunJournal } from '../runs/run-journal.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'
import { explainWhy } from '../sandbox/why.ts'
import type { LedgerRows } from '../store/ledger-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import type { Usage } from '../usage/usage.ts'
import { DAY_MS, dayStrip } from './day-strip.ts'
import type { EventFeed, RelayedEvent } from './event-feed.ts'
import { type FamilyDependencies, familyOf } from './family.ts'
import type { Counts, FleetElsewhere, HostNumbers } from './fleet-elsewhere.ts'
import { addNumbers, groupOfRow, noNumbers } from './host-numbers.ts'
import { percentile } from './percentile.ts'

/** Wakes whose latency the overview shows. */
const WAKES_KEPT = 1000
/** A sample is an event when the memory has changed by this much since the last one. */
const TELL_MEMORY_SHARE = 0.05
const TELL_MEMORY_BYTES = 4 << 20
const CODE_CHARACTERS = 200

export interface FleetDependencies extends FamilyDependencies {
  readonly feed: EventFeed
  readonly ledger: Pick<LedgerRows, 'since'>
  readonly snapshots: Pick<SnapshotRows, 'storedMemoryBytes' | 'list'>
  readonly journal: Pick<RunJournal, 'list'>
  readonly usage: Usage
  readonly nowMs: () => number
}

/** `isLocal`: only what is on this host of a cluster. */
export interface FleetQuery {
  readonly isLocal: boolean
}

const EVERYWHERE: FleetQuery = { isLocal: false }

/** What all sandboxes of a caller do and use. */
export interface FleetCalls {
  overview(caller: Caller, query?: FleetQuery): Promise<OverviewAnswer>
  /** Unknown ids, and those of others, are left out. */
  activity(ids: readonly string[], caller: Caller, query?: FleetQuery): Promise<ActivityAnswer>
  /** The sandboxes that share an ancestor with this one, and their snapshots. */
  family(sandbox: Pick<Sandbox, 'id'>, caller: Caller): Promise<FamilyAnswer>
  readonly events: Pick<EventFeed, 'follow'>
}

export class Fleet implements FleetCalls {
  readonly #deps: FleetDependencies
  readonly #memoryBytes = new Map<SandboxId, number>()
  readonly #toldBytes = new Map<SandboxId, number>()
  readonly #wakeMs: { owner: string; ms: number }[] = []
  /** Undefined outside a cluster. */
  elsewhere: FleetElsewhere | undefined

  constructor(deps: FleetDependencies) {
    this.#deps = deps
  }

  get events(): EventFeed {
    return this.#deps.feed
  }

  get listener(): SandboxListener {
    const { feed, sandboxes } = this.#deps
    return {
      changed: ({ id, owner }) =>
        feed.publish({
          type: 'sandbox.changed',
          owner,
          sandboxId: id,
          data: () => {
            const found = sandboxes.find(id)
            return found === undefined || found.isDeleted ? undefined : { ...found.view() }
          },
        }),
      deleted: ({ id, owner }) => {
        this.#memoryBytes.delete(id)
        this.#toldBytes.delete(id)
        feed.publish({ type: 'sandbox.deleted', owner, sandboxId: id, data: () => ({}) })
      },
      recorded: ({ id, owner }, entry) => {
        const { latencyMs, event } = entry
        if (event === 'woke' && latencyMs !== undefined) this.#addWake(owner, latencyMs)
        feed.publish({ type: 'sandbox.ledger', owner, sandboxId: id, data: () => ({ ...entry }) })
      },
      woke: ({ id, owner }, { tier, latencyMs }) => {
        this.#addWake(owner, latencyMs)
        const data = { event: 'woke', cause: 'call', tier, latencyMs }
        feed.publish({ type: 'sandbox.ledger', owner, sandboxId: id, data: () => data })
      },
      sampled: ({ id, owner }, { memoryBytes }) => {
        this.#memoryBytes.set(id, memoryBytes)
        const change = Math.abs(memoryBytes - (this.#toldBytes.get(id) ?? 0))
        if (change < TELL_MEMORY_BYTES || change < TELL_MEMORY_SHARE * memoryBytes) return
        this.#toldBytes.set(id, memoryBytes)
        feed.publish({ type: 'sandbox.usage', owner, sandboxId: id, data: () => ({ memoryBytes }) })
      },
    }
  }

  /** What has happened on another host. */
  heard({ type, owner, data }: Pick<RelayedEvent, 'type' | 'owner' | 'data'>): void {
    const { event, latencyMs } = data
    if (type !== 'sandbox.ledger' || event !== 'woke' || owner === undefined) return
    if (typeof latencyMs === 'number') this.#addWake(owner, latencyMs)
  }

  async overview(caller: Caller, { isLocal } = EVERYWHERE): Promise<OverviewAnswer> {
    const elsewhere = isLocal ? undefined : this.elsewhere
    const others = (await elsewhere?.numbers(caller)) ?? []
    const wakeMs = this.#wakeMs.filter((wake) => mayUse(caller, wake.owner)).map(({ ms }) => ms)
    return {
      ...addNumbers([this.#numbers(caller), ...others]),
      cost: await (elsewhere?.cost(caller) ?? this.#cost(caller)),
      wakes: { count: wakeMs.length, p50Ms: percentile(wakeMs, 0.5), p99Ms: percentile(wakeMs, 0.99) },
    }
  }

  async activity(ids: readonly string[], caller: Caller, { isLocal } = EVERYWHERE): Promise<ActivityAnswer> {
    const found = ids.flatMap((id) => this.#deps.sandboxes.find(id) ?? [])
    const visible = found.filter((one) => !one.isDeleted && mayUse(caller, one.row.owner))
    const here = visible.map((sandbox) => this.#activityOf(sandbox))
    const missing = ids.filter((id) => !found.some((one) => one.id === id))
    if (isLocal || this.elsewhere === undefined || missing.length === 0) return { items: here }
    const all = new Map(
      [...here, ...(await this.elsewhere.activity(missing, caller))].map((one) => [one.sandboxId, one]),
    )
    return { items: ids.flatMap((id) => all.get(id as SandboxId) ?? []) }
  }

  family(sandbox: Pick<Sandbox, 'id'>, caller: Caller): Promise<FamilyAnswer> {
    return familyOf({ ...this.#deps, elsewhere: this.elsewhere }, sandbox, caller)
  }

  /** Of this host. */
  #numbers(caller: Caller): HostNumbers {
    const { sandboxes, snapshots } = this.#deps
    const numbers = noNumbers()
    for (const sandbox of sandboxes.all()) {
      if (sandbox.isDeleted || !mayUse(caller, sandbox.row.owner)) continue
      numbers[groupOf(sandbox)] += 1
      numbers.memoryHeldBytes += this.#memoryOf(sandbox) ?? 0
    }
    numbers.memorySavedBytes = snapshots.storedMemoryBytes(caller.isAdmin ? undefined : caller.keyId)
    return numbers
  }

  async #cost(caller: Caller): Promise<OverviewAnswer['cost']> {
    const { total, currency } = await this.#deps.usage.report({}, caller, { isLocal: true })
    return { currency, spent: total.cost, alwaysOn: total.alwaysOnCost }
  }

  #activityOf(sandbox: Sandbox): ActivityAnswer['items'][number] {
    const { ledger, journal, nowMs } = this.#deps
    const now = nowMs()
    const [run] = journal.list(sandbox.id, { limit: 1 }).items
    return {
      sandboxId: sandbox.id,
      why: explainWhy(sandbox).summary,
      memoryBytes: this.#memoryOf(sandbox),
      day: dayStrip(sandbox.row, ledger.since(sandbox.id, now - DAY_MS), now),
      lastRun: run && {
        runId: run.runId,
        state: run.state,
        code: run.code?.slice(0, CODE_CHARACTERS),
        startedAt: new Date(run.startedAt).toISOString(),
        exitCode: run.exitCode,
      },
    }
  }

  /** Frozen sandboxes are in memory, too. */
  #memoryOf({ id, row }: Sandbox): number | undefined {
    if (row.state === 'standby' && row.tier !== 'frozen') return undefined
    return this.#memoryBytes.get(id)
  }

  #addWake(owner: string, ms: number): void {
    this.#wakeMs.push({ owner, ms })
    if (this.#wakeMs.length > WAKES_KEPT) this.#wakeMs.shift()
  }
}

function groupOf({ row, deps }: Sandbox): keyof Counts {
  return deps.quarantine.damageOf(row) === undefined ? groupOfRow(row) : 'failed'
}

function mayUse(caller: Caller, owner: string): boolean {
  return caller.isAdmin || caller.keyId === owner
}
