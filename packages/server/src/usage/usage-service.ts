import { DormouseError, type SandboxId } from '@dormouse/contracts'
import type { StorageReport } from '@dormouse/engine'
import type { Usage, UsageNumbers, UsageReport } from '../api/services.ts'
import type { Prices } from '../config/config.ts'
import type { LifecycleListener, Log } from '../lifecycle/parts.ts'
import type { Caller } from '../lifecycle/service.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import { noUsage, type UsageAmounts, type UsageOf, type UsageRows } from './usage-rows.ts'

export interface UsageServiceOptions {
  readonly rows: UsageRows
  readonly snapshots: SnapshotRows
  readonly sandboxes: () => Iterable<{ readonly body: { readonly row: SandboxRow } }>
  readonly storage: () => Promise<StorageReport>
  readonly prices: Prices
  readonly now: () => number
  readonly log: Log
}

const COUNT_EVERY_MS = 5_000
/** Looking at the disk costs more than looking at the clock. */
const STORAGE_EVERY_MS = 60_000
const GB = 1024 ** 3
const SECOND_MS = 1000
const HOUR_MS = 3_600_000

/** Counts what sandboxes use, as it happens, and adds it up when asked. A crash loses the last seconds. */
export class UsageService implements Usage, Disposable {
  readonly #options: UsageServiceOptions
  readonly #pending = new Map<string, { of: UsageOf; used: UsageAmounts }>()
  readonly #timer: NodeJS.Timeout
  #countedUntil: number
  #storage: StorageReport | undefined
  #storageAt = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(options: UsageServiceOptions) {
    this.#options = options
    // What slept while there was no server was kept all the same.
    this.#countedUntil = options.rows.countedUntil ?? options.now()
    this.#timer = setInterval(() => {
      this.count().catch((error: unknown) => options.log.warn({ err: error }, 'usage was not counted'))
    }, COUNT_EVERY_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    try {
      this.#countTime()
      this.#write()
    } catch (error) {
      this.#options.log.warn({ err: error }, 'usage was not counted')
    }
    this.#isClosed = true
  }

  get listener(): LifecycleListener {
    return {
      recorded: (row, { event }) => {
        if (event === 'woke') this.#of(row).wakes += 1
        if (event === 'forked') this.#of(row).forks += 1
      },
      ran: (row, ms) => {
        this.#of(row).runningMs += ms
      },
      sampled: (row, { ms, cpuMs, memoryBytes }) => {
        const used = this.#of(row)
        used.cpuMs += cpuMs
        used.memoryByteMs += memoryBytes * ms
      },
    }
  }

  async count(): Promise<void> {
    const now = this.#options.now()
    if (now - this.#storageAt >= STORAGE_EVERY_MS) {
      this.#storageAt = now
      this.#storage = await this.#options.storage()
    }
    if (this.#isClosed) return
    this.#countTime()
    this.#write()
  }

  async report(
    query: { from?: string | undefined; to?: string | undefined; sandboxId?: string | undefined },
    caller: Caller,
  ): Promise<UsageReport> {
    const now = this.#options.now()
    const from = query.from === undefined ? startOfMonth(now) : Date.parse(query.from)
    const to = query.to === undefined ? now : Date.parse(query.to)
    if (from >= to)
      throw new DormouseError('invalid_argument', 'to: must be later than `from`', {
        details: { field: 'to' },
      })
    await this.count()
    const owner = caller.isAdmin ? undefined : caller.keyId
    const sums = this.#options.rows.sum({ from, to, owner, sandboxId: query.sandboxId })
    const alive = new Map<string, string | undefined>()
    for (const { body } of this.#options.sandboxes()) alive.set(body.row.id, body.row.name)
    const total = noUsage()
    for (const sum of sums) addTo(total, sum)
    return {
      from: new Date(from).toISOString(),
      to: new Date(to).toISOString(),
      currency: this.#options.prices.currency,
      total: this.#numbers(total),
      sandboxes: sums.map((sum) => ({
        sandboxId: sum.sandboxId,
        name: alive.get(sum.sandboxId) ?? sum.name,
        deleted: !alive.has(sum.sandboxId),
        ...this.#numbers(sum),
      })),
    }
  }

  #numbers(used: UsageAmounts): UsageNumbers {
    const { prices } = this.#options
    const cpuSeconds = used.cpuMs / SECOND_MS
    const memoryGbSeconds = used.memoryByteMs / GB / SECOND_MS
    const storedGbHours = used.storedByteMs / GB / HOUR_MS
    return {
      runningSeconds: used.runningMs / SECOND_MS,
      cpuSeconds,
      memoryGbSeconds,
      storedGbHours,
      wakes: used.wakes,
      forks: used.forks,
      cost:
        cpuSeconds * prices.runningCpuSecond +
        memoryGbSeconds * prices.memoryGbSecond +
        storedGbHours * prices.storedGbHour,
      alwaysOnCost:
        (used.reservedCpuMs / SECOND_MS) * prices.alwaysOnCpuSecond +
        (used.reservedMemoryByteMs / GB / SECOND_MS) * prices.alwaysOnMemoryGbSecond,
    }
  }

  /** What goes on by itself: being there, and being stored. */
  #countTime(): void {
    const now = this.#options.now()
    const ms = now - this.#countedUntil
    if (ms <= 0) return
    for (const { body } of this.#options.sandboxes()) {
      const { row } = body
      const used = this.#of(row)
      const aliveMs = Math.min(ms, now - row.createdAt)
      used.reservedCpuMs += row.limits.cpus * aliveMs
      used.reservedMemoryByteMs += row.limits.memoryBytes * aliveMs
    }
    for (const [id, bytes] of this.#storage?.snapshots ?? []) {
      const snapshot = this.#options.snapshots.get(id)
      if (snapshot === undefined) continue
      const { sandboxId, owner } = snapshot
      this.#of({ id: sandboxId, owner, name: undefined }).storedByteMs +=
        bytes * Math.min(ms, now - snapshot.createdAt)
    }
    this.#countedUntil = now
  }

  #of({ id, owner, name }: { id: SandboxId; owner: string; name: string | undefined }): UsageAmounts {
    const known = this.#pending.get(id)
    if (known !== undefined) return known.used
    const used = noUsage()
    this.#pending.set(id, { of: { sandboxId: id, owner, name }, used })
    return used
  }

  #write(): void {
    if (this.#isClosed) return
    const amounts = [...this.#pending.values()].map(({ of, used }) => [of, used] as const)
    this.#options.rows.add(this.#countedUntil, amounts)
    this.#pending.clear()
  }
}

function addTo(total: UsageAmounts, more: UsageAmounts): void {
  for (const name of Object.keys(total) as (keyof UsageAmounts)[]) total[name] += more[name]
}

function startOfMonth(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}
