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
import type { EventFeed } from './event-feed.ts'
import { type FamilyDependencies, familyOf } from './family.ts'
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

/** What all sandboxes of a caller do and use. */
export interface FleetCalls {
  overview(caller: Caller): Promise<OverviewAnswer>
  /** Unknown ids, and those of others, are left out. */
  activity(ids: readonly string[], caller: Caller): ActivityAnswer
  /** The sandboxes that share an ancestor with this one, and their snapshots. */
  family(sandbox: Pick<Sandbox, 'id'>, caller: Caller): Promise<FamilyAnswer>
  readonly events: Pick<EventFeed, 'follow'>
}

export class Fleet implements FleetCalls {
  readonly #deps: FleetDependencies
  readonly #memoryBytes = new Map<SandboxId, number>()
  readonly #toldBytes = new Map<SandboxId, number>()
  readonly #wakeMs: { owner: string; ms: number }[] = []

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

  async overview(caller: Caller): Promise<OverviewAnswer> {
    const { sandboxes, snapshots, usage } = this.#deps
    const counts = { running: 0, frozen: 0, stored: 0, failed: 0 }
    let memoryHeldBytes = 0
    for (const sandbox of sandboxes.all()) {
      if (sandbox.isDeleted || !mayUse(caller, sandbox.row.owner)) continue
      counts[groupOf(sandbox)] += 1
      memoryHeldBytes += this.#memoryOf(sandbox) ?? 0
    }
    const owner = caller.isAdmin ? undefined : caller.keyId
    const { total, currency } = await usage.report({}, caller)
    const wakeMs = this.#wakeMs.filter((wake) => mayUse(caller, wake.owner)).map(({ ms }) => ms)
    return {
      ...counts,
      memoryHeldBytes,
      memorySavedBytes: snapshots.storedMemoryBytes(owner),
      cost: { currency, spent: total.cost, alwaysOn: total.alwaysOnCost },
      wakes: { count: wakeMs.length, p50Ms: percentile(wakeMs, 0.5), p99Ms: percentile(wakeMs, 0.99) },
    }
  }

  activity(ids: readonly string[], caller: Caller): ActivityAnswer {
    const found = ids.flatMap((id) => this.#deps.sandboxes.find(id) ?? [])
    const visible = found.filter((one) => !one.isDeleted && mayUse(caller, one.row.owner))
    return { items: visible.map((sandbox) => this.#activityOf(sandbox)) }
  }

  family(sandbox: Pick<Sandbox, 'id'>, caller: Caller): Promise<FamilyAnswer> {
    return familyOf(this.#deps, sandbox, caller)
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

function groupOf({ row, deps }: Sandbox): 'running' | 'frozen' | 'stored' | 'failed' {
  if (deps.quarantine.damageOf(row) !== undefined) return 'failed'
  return row.state === 'standby' ? (row.tier ?? 'stored') : 'running'
}

function mayUse(caller: Caller, owner: string): boolean {
  return caller.isAdmin || caller.keyId === owner
}
