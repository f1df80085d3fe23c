import { setImmediate as othersTurn } from 'node:timers/promises'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import type { UsageAnswer } from '@dormouse/contracts/http'
import type { StorageReport } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import { Moment } from '../clock/moment.ts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Prices } from '../config/config.ts'
import type { Log } from '../log.ts'
import type { NewLedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'
import { HOUR_MS, hourOf, splitHours } from './hours.ts'
import type { Usage, UsageNumbers } from './usage.ts'
import { noUsage, type UsageAmounts, type UsageOf, type UsageRows } from './usage-rows.ts'

export interface UsageServiceOptions {
  readonly rows: UsageRows
  readonly snapshots: SnapshotRows
  readonly sandboxes: () => Iterable<{ readonly row: SandboxRow }>
  readonly findSandbox: (id: string) => { readonly row: SandboxRow } | undefined
  readonly storage: () => Promise<StorageReport>
  readonly prices: Prices
  readonly clock: ServerClock
  readonly log: Log
}

const COUNT_EVERY_MS = 5_000
/** Measuring the disk is expensive. */
const STORAGE_EVERY_MS = 60_000
/** Time passes for every sandbox. While nothing changes, counting it can wait; a crash does not lose it. */
const TIME_EVERY_MS = 5 * 60_000
const GB = 1024 ** 3
/** English prose and code have about four characters a token with the tokenizers of common models. */
const CHARACTERS_PER_TOKEN = 4
/** Counted at once; the rest follows later. */
const RUNS_AT_ONCE = 1_000
const SECOND_MS = 1000
/** Time counted at once: after a long time without a server there is a row for every sandbox and hour. */
const SLICE_MS = 24 * HOUR_MS

/** What the processes of a sandbox used in `ms`. */
interface UsageSample {
  readonly ms: number
  readonly cpuMs: number
  readonly memoryBytes: number
}

interface Owned {
  readonly id: SandboxId
  readonly owner: string
  readonly name: string | undefined
}

/**
 * Counts what sandboxes use, by the hour, and adds it up for reports. A crash loses the last seconds of what they did,
 * and nothing of the time that they existed.
 */
export class UsageService implements Usage, Disposable {
  readonly #options: UsageServiceOptions
  readonly #pending = new Map<string, { of: UsageOf; used: UsageAmounts }>()
  readonly #timer: NodeJS.Timeout
  #countedUntil: number
  /** The same by the monotonic clock. */
  #counted: Moment
  #countedRun: number
  #recordedAt: number
  #storage: StorageReport | undefined
  #storageAt = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(options: UsageServiceOptions) {
    this.#options = options
    // Sandboxes took disk space also while no server ran.
    const { clock, rows } = options
    this.#countedUntil = rows.countedUntil ?? clock.wallMs()
    this.#countedRun = rows.countedRun
    this.#recordedAt = rows.recordedAt ?? this.#countedUntil
    this.#counted =
      rows.countedUntil === undefined ? Moment.now(clock) : Moment.recorded(clock, rows.countedUntil)
    this.#timer = setInterval(() => {
      this.count().catch((error: unknown) => options.log.warn({ err: error }, 'usage could not be counted'))
    }, COUNT_EVERY_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    try {
      // Right after a start the stored sizes are not known yet; the next server counts that time.
      if (this.#storage !== undefined) this.#countTime()
      this.#write()
    } catch (error) {
      this.#options.log.warn({ err: error }, 'usage could not be counted')
    }
    this.#isClosed = true
  }

  get listener() {
    return {
      recorded: (row: SandboxRow, { event }: NewLedgerEntry) => {
        const hour = hourOf(this.#options.clock.wallMs())
        if (event === 'woke') this.#of(row, hour).wakes += 1
        if (event === 'forked') this.#of(row, hour).forks += 1
      },
      changed: (row: SandboxRow, before: SandboxRow) => {
        if (row.limits !== before.limits) while (!this.#countTime(before));
      },
      deleted: (row: SandboxRow) => {
        const { clock } = this.#options
        const now = clock.wallMs()
        if (clock.knowsDownTime) this.#countReserved(row, now - Math.round(this.#counted.elapsedMs), now)
      },
      ran: (row: SandboxRow, ms: number) => {
        const now = this.#options.clock.wallMs()
        for (const { hour, from, to } of splitHours(now - ms, now)) this.#of(row, hour).runningMs += to - from
      },
      sampled: (row: SandboxRow, { ms, cpuMs, memoryBytes }: UsageSample) => {
        const now = this.#options.clock.wallMs()
        // Two samples in one millisecond, or a clock that was set back.
        if (ms <= 0) this.#of(row, hourOf(now)).cpuMs += cpuMs
        for (const { hour, from, to } of splitHours(now - ms, now)) {
          const used = this.#of(row, hour)
          used.cpuMs += (cpuMs * (to - from)) / ms
          used.memoryByteMs += memoryBytes * (to - from)
        }
      },
    }
  }

  /** `upToNow`: all time up to this moment, which a report shows. */
  async count({ upToNow = false } = {}): Promise<void> {
    const now = this.#options.clock.monotonicMs()
    let isDue = upToNow || this.#counted.elapsedMs >= TIME_EVERY_MS
    if (now - this.#storageAt >= STORAGE_EVERY_MS) {
      this.#storageAt = now
      const before = this.#storage
      this.#storage = await this.#options.storage()
      isDue ||= !isSame(before, this.#storage)
    }
    this.#countRuns()
    while (!this.#isClosed) {
      const isAll = !isDue || this.#countTime()
      this.#write()
      if (isAll) return
      await othersTurn()
    }
  }

  async report(
    query: { from?: string | undefined; to?: string | undefined; sandboxId?: string | undefined },
    caller: Caller,
  ): Promise<UsageAnswer> {
    const now = this.#options.clock.wallMs()
    const from = query.from === undefined ? startOfMonth(now) : Date.parse(query.from)
    const to = query.to === undefined ? now : Date.parse(query.to)
    if (from >= to)
      throw new DormouseError('invalid_argument', 'to: must be later than `from`', {
        details: { field: 'to' },
      })
    await this.count({ upToNow: true })
    const owner = caller.isAdmin ? undefined : caller.keyId
    const [fromHour, toHour] = [hourOf(from), Math.ceil(to / HOUR_MS)]
    const sums = this.#options.rows.sum({ fromHour, toHour, owner, sandboxId: query.sandboxId })
    // The current hour is counted up to now.
    const end = from < now ? Math.min(now, toHour * HOUR_MS) : toHour * HOUR_MS
    const alive = new Map<string, string | undefined>()
    for (const { row } of this.#options.sandboxes()) alive.set(row.id, row.name)
    const total = noUsage()
    const byKey = new Map<string, UsageAmounts>()
    for (const sum of sums) {
      addTo(total, sum)
      const ofKey = byKey.get(sum.owner) ?? noUsage()
      addTo(ofKey, sum)
      byKey.set(sum.owner, ofKey)
    }
    return {
      from: new Date(fromHour * HOUR_MS).toISOString(),
      to: new Date(end).toISOString(),
      currency: this.#options.prices.currency,
      total: this.numbersOf(total),
      keys: [...byKey].map(([keyId, used]) => ({ keyId, ...this.numbersOf(used) })),
      sandboxes: sums.map((sum) => ({
        sandboxId: sum.sandboxId,
        keyId: sum.owner,
        name: alive.get(sum.sandboxId) ?? sum.name,
        deleted: !alive.has(sum.sandboxId),
        ...this.numbersOf(sum),
      })),
    }
  }

  numbersOf(used: UsageAmounts): UsageNumbers {
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
      savedTokens: used.savedTokens,
      cost:
        cpuSeconds * prices.runningCpuSecond +
        memoryGbSeconds * prices.memoryGbSecond +
        storedGbHours * prices.storedGbHour,
      alwaysOnCost:
        (used.reservedCpuMs / SECOND_MS) * prices.alwaysOnCpuSecond +
        (used.reservedMemoryByteMs / GB / SECOND_MS) * prices.alwaysOnMemoryGbSecond,
    }
  }

  /**
   * Counts time: of existence and of storage. Returns true when everything up to now is counted. `before`: a row that
   * has just changed, as it was.
   */
  #countTime(before?: SandboxRow): boolean {
    const { clock } = this.#options
    // The wall clock may be wrong.
    if (!clock.knowsDownTime) return true
    const now = clock.wallMs()
    const since = now - Math.round(this.#counted.elapsedMs)
    const until = Math.min(now, since + SLICE_MS)
    if (until <= since) return true
    for (const { row } of this.#options.sandboxes())
      this.#countReserved(row.id === before?.id ? before : row, since, until)
    for (const [id, bytes] of this.#storage?.snapshots ?? []) {
      const snapshot = this.#options.snapshots.get(id)
      if (snapshot === undefined) continue
      const owned = { id: snapshot.sandboxId, owner: snapshot.owner, name: undefined }
      for (const { hour, from, to } of splitHours(Math.max(since, snapshot.createdAt), until))
        this.#of(owned, hour).storedByteMs += bytes * (to - from)
    }
    this.#countedUntil = until
    this.#counted = Moment.ago(clock, now - until)
    return until >= now
  }

  #countReserved(row: SandboxRow, since: number, until: number): void {
    for (const { hour, from, to } of splitHours(Math.max(since, row.createdAt), until)) {
      const used = this.#of(row, hour)
      used.reservedCpuMs += row.limits.cpus * (to - from)
      used.reservedMemoryByteMs += row.limits.memoryBytes * (to - from)
    }
  }

  /** A tool without state would have sent the code of all earlier runs of the context again with each run. */
  #countRuns(): void {
    if (this.#isClosed) return
    for (const run of this.#options.rows.uncountedRuns(this.#countedRun, RUNS_AT_ONCE)) {
      this.#countedRun = run.id
      const row = this.#options.findSandbox(run.sandboxId)?.row
      if (row === undefined) continue
      const saved = Math.round(run.charactersBefore / CHARACTERS_PER_TOKEN)
      this.#of(row, hourOf(run.startedAt)).savedTokens += saved
    }
  }

  #of({ id, owner, name }: Owned, hour: number): UsageAmounts {
    const key = `${hour} ${id}`
    const known = this.#pending.get(key)
    if (known !== undefined) return known.used
    const used = noUsage()
    this.#pending.set(key, { of: { hour, sandboxId: id, owner, name }, used })
    return used
  }

  #write(): void {
    if (this.#isClosed) return
    const { clock, rows } = this.#options
    const amounts = [...this.#pending.values()].map(({ of, used }) => [of, used] as const)
    // A wall clock that may be wrong is not recorded.
    if (clock.knowsDownTime) this.#recordedAt = clock.wallMs()
    const [countedUntil, countedRun, recordedAt] = [this.#countedUntil, this.#countedRun, this.#recordedAt]
    rows.add({ countedUntil, countedRun, recordedAt }, amounts)
    this.#pending.clear()
  }
}

function isSame(one: StorageReport | undefined, other: StorageReport): boolean {
  if (one?.snapshots.size !== other.snapshots.size) return false
  for (const [id, bytes] of other.snapshots) if (one.snapshots.get(id) !== bytes) return false
  return true
}

function addTo(total: UsageAmounts, more: UsageAmounts): void {
  for (const name of Object.keys(total) as (keyof UsageAmounts)[]) total[name] += more[name]
}

function startOfMonth(now: number): number {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
}
