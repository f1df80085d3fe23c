import type { HostRecord } from '@dormouse/cluster'
import { type UsageAnswer, usageSchema } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Log } from '../log.ts'
import type { Database } from '../store/database.ts'
import { HOUR_MS, hourOf } from '../usage/hours.ts'
import type { Usage, UsageNumbers } from '../usage/usage.ts'
import { noUsage, type UsageAmounts, type UsageRows } from '../usage/usage-rows.ts'
import type { Peers } from './peers.ts'

export interface SharedUsageOptions {
  readonly local: Usage & { numbersOf(used: UsageAmounts): UsageNumbers }
  readonly rows: UsageRows
  /** cluster.db: its table `usage_hours` is shared. */
  readonly db: Database
  readonly peers: Peers
  readonly hostId: string
  readonly nowMs: () => number
  readonly log: Log
}

const PUBLISH_EVERY_MS = 10_000

/**
 * Usage on all hosts. Hosts that answer report their sandboxes; of a host that is lost, the sums by key and hour that it
 * has published count, up to some seconds before its end.
 */
export class SharedUsage implements Usage, Disposable {
  readonly #options: SharedUsageOptions
  readonly #timer: NodeJS.Timeout

  constructor(options: SharedUsageOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#publish(), PUBLISH_EVERY_MS).unref()
    this.#publish()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#publish()
  }

  async report(
    query: Parameters<Usage['report']>[0],
    caller: Caller,
    { isLocal }: { isLocal: boolean } = { isLocal: false },
  ): Promise<UsageAnswer> {
    const { local, peers } = this.#options
    const own = await local.report(query, caller)
    if (isLocal) return own
    const path = `/v1/usage?${new URLSearchParams(Object.entries(query).filter(isGiven))}`
    const asked = await Promise.all(
      peers.alive().map(async (host) => {
        const answer = await peers.get(host, path, caller.keyId).catch(() => undefined)
        return { host, answer: usageSchema.safeParse(answer).data }
      }),
    )
    const answered = asked.flatMap(({ answer }) => answer ?? [])
    const reached = asked.flatMap(({ host, answer }) => (answer === undefined ? [] : host))
    const lost = query.sandboxId === undefined ? [this.#published(own, caller, reached)] : []
    return [...answered, ...lost].reduce(addReport, own)
  }

  /** Of the hosts that did not answer. */
  #published(own: UsageAnswer, caller: Caller, reached: readonly HostRecord[]): UsageAnswer {
    const { db, hostId, local } = this.#options
    const known = new Set([hostId, ...reached.map(({ id }) => id)])
    const hours = db
      .prepare<[number, number], { host: string; amounts: string }>(
        'SELECT host, amounts FROM usage_hours WHERE hour >= ? AND hour < ?',
      )
      .all(hourOf(Date.parse(own.from)), Math.ceil(Date.parse(own.to) / HOUR_MS))
    const total = noUsage()
    const byKey = new Map<string, UsageAmounts>()
    for (const { host, amounts } of hours) {
      if (known.has(host)) continue
      for (const [owner, used] of Object.entries(JSON.parse(amounts) as Record<string, UsageAmounts>)) {
        if (!caller.isAdmin && owner !== caller.keyId) continue
        const ofKey = byKey.get(owner) ?? noUsage()
        addAmounts(ofKey, used)
        addAmounts(total, used)
        byKey.set(owner, ofKey)
      }
    }
    const keys = [...byKey].map(([keyId, used]) => ({ keyId, ...local.numbersOf(used) }))
    return { ...own, total: local.numbersOf(total), keys, sandboxes: [] }
  }

  /** The hour that has just ended may have got its last seconds. */
  #publish(): void {
    const { rows, db, hostId, nowMs, log } = this.#options
    const now = hourOf(nowMs())
    try {
      for (const hour of [now - 1, now]) {
        const byOwner: Record<string, UsageAmounts> = {}
        const range = { fromHour: hour, toHour: hour + 1, owner: undefined, sandboxId: undefined }
        for (const sum of rows.sum(range)) {
          byOwner[sum.owner] ??= noUsage()
          addAmounts(byOwner[sum.owner] as UsageAmounts, sum)
        }
        if (Object.keys(byOwner).length === 0) continue
        db.prepare<[string, number, string]>(
          `INSERT INTO usage_hours (host, hour, amounts) VALUES (?, ?, ?)
           ON CONFLICT (host, hour) DO UPDATE SET amounts = excluded.amounts WHERE amounts <> excluded.amounts`,
        ).run(hostId, hour, JSON.stringify(byOwner))
      }
    } catch (err) {
      log.warn({ err }, 'the usage of this host is not known to the others yet')
    }
  }
}

function addReport(sum: UsageAnswer, more: UsageAnswer): UsageAnswer {
  const keys = new Map(sum.keys.map((key) => [key.keyId, key]))
  for (const key of more.keys) {
    const before = keys.get(key.keyId)
    keys.set(key.keyId, before === undefined ? key : { ...key, ...addNumbers(before, key) })
  }
  const sandboxes = new Map(sum.sandboxes.map((one) => [one.sandboxId, one]))
  for (const one of more.sandboxes) {
    const before = sandboxes.get(one.sandboxId)
    // A sandbox that has moved is deleted on the host that it left.
    const there = before?.deleted === false ? before : one
    sandboxes.set(one.sandboxId, before === undefined ? one : { ...there, ...addNumbers(before, one) })
  }
  return {
    ...sum,
    total: addNumbers(sum.total, more.total),
    keys: [...keys.values()],
    sandboxes: [...sandboxes.values()],
  }
}

function addNumbers(one: UsageNumbers, other: UsageNumbers): UsageNumbers {
  return {
    runningSeconds: one.runningSeconds + other.runningSeconds,
    cpuSeconds: one.cpuSeconds + other.cpuSeconds,
    memoryGbSeconds: one.memoryGbSeconds + other.memoryGbSeconds,
    storedGbHours: one.storedGbHours + other.storedGbHours,
    wakes: one.wakes + other.wakes,
    forks: one.forks + other.forks,
    savedTokens: one.savedTokens + other.savedTokens,
    cost: one.cost + other.cost,
    alwaysOnCost: one.alwaysOnCost + other.alwaysOnCost,
  }
}

function addAmounts(total: UsageAmounts, more: UsageAmounts): void {
  for (const name of Object.keys(total) as (keyof UsageAmounts)[]) total[name] += more[name]
}

function isGiven(entry: [string, string | undefined]): entry is [string, string] {
  return entry[1] !== undefined
}
