import { randomUUID } from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'
import type { FiringAnswer, ScheduleAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import { cronTimes, type Due, dueNow } from './cron-times.ts'
import { type ActionServices, performAction } from './perform-action.ts'
import {
  type CreateSchedule,
  type Firing,
  type FiringOutcome,
  type ScheduleRow,
  type ScheduleRows,
  scheduleView,
} from './schedule-rows.ts'

/** Of one key. */
const SCHEDULES_MAX = 1_000
const FIRINGS_LISTED_MAX = 100
/** The clock may be set while a timer runs. */
const LOOK_MS = 1_000
/** Smaller steps back are corrections of a clock that runs a little fast. */
const SET_BACK_MS = 5_000
/** How often an action that finds no room is tried, and the pauses between. */
const TRIES_MAX = 5
const PAUSE_MS = 1_000

export type UpdateSchedule = Partial<Omit<CreateSchedule, 'name'>>

export interface Schedules {
  create(request: CreateSchedule, caller: Caller): ScheduleAnswer
  get(name: string, caller: Caller): ScheduleAnswer
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<ScheduleAnswer>
  update(name: string, change: UpdateSchedule, caller: Caller): ScheduleAnswer
  delete(name: string, caller: Caller): void
  /** Fires now, beside its times. Resolves when the action is done. */
  fire(name: string, caller: Caller): Promise<FiringAnswer>
  /** The latest, newest first. */
  firings(name: string, caller: Caller): readonly FiringAnswer[]
}

export interface ScheduleDependencies extends ActionServices {
  readonly rows: ScheduleRows
  readonly clock: Pick<ServerClock, 'wallMs'>
  /** Undefined when the key is revoked. */
  readonly findKey: (keyId: string) => object | undefined
  readonly log: Log
}

/** Decides which host fires a schedule. */
export interface ScheduleCluster {
  /** False: the host of its sandbox or service fires it. */
  mayFire(row: ScheduleRow): boolean
  /** `mine` on exactly one host. `lost`: the host that has claimed it is lost, and no other may fire it. */
  claim(row: ScheduleRow, at: number): Promise<'mine' | 'taken' | 'lost'>
  /** True when this host must finish a firing that a lost host has begun. */
  takeLost(firing: Pick<Firing, 'scheduleId' | 'at'>): Promise<boolean>
  /** Whether this host has claimed it, or no host. */
  isMine(firing: Pick<Firing, 'scheduleId' | 'at'>): Promise<boolean>
  /** Brings the sandbox of a lost host here. */
  prepare(row: ScheduleRow): Promise<void>
}

/** Fires schedules at their times: each time once, whatever happens to the server and to the clock. */
export class ScheduleService implements Schedules, Disposable {
  readonly #deps: ScheduleDependencies
  readonly #stop = new AbortController()
  #timer: NodeJS.Timeout | undefined
  /** The clock may have been set back while no server ran: the first look settles again. */
  #lastLookMs = Number.POSITIVE_INFINITY
  /** Schedules whose firing is being claimed. */
  readonly #claiming = new Set<string>()
  #isResuming = false
  /** Undefined outside a cluster. */
  #cluster: ScheduleCluster | undefined

  constructor(deps: ScheduleDependencies) {
    this.#deps = deps
  }

  /** The schedules are those of all hosts. Call it before `open`. */
  join(cluster: ScheduleCluster): void {
    this.#cluster = cluster
  }

  /** Finishes what an earlier server began, and starts. Pre: sandboxes, runs and jobs are recovered. */
  open(): void {
    for (const firing of this.#deps.rows.open()) void this.#resume(firing)
    this.look()
    this.#timer = setInterval(() => this.look(), LOOK_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#stop.abort()
  }

  [Symbol.dispose](): void {
    this.stop()
  }

  /** Fires what is due. */
  look(): void {
    const { rows, clock, log } = this.#deps
    try {
      const now = clock.wallMs()
      if (now < this.#lastLookMs - SET_BACK_MS) this.#settleAgain(now)
      this.#lastLookMs = now
      for (const row of rows.enabled()) {
        if ((row.nextAt ?? now) > now) break
        const due = dueNow(cronTimes(row.cron, row.timezone), row.nextAt ?? now, now, row.missed)
        this.#fire(row, due)
      }
      if (this.#cluster !== undefined) void this.#resumeLost(this.#cluster)
    } catch (err) {
      // On a full disk nothing fires before it can be recorded.
      log.warn({ err }, 'schedules could not be looked at')
    }
  }

  #fire(row: ScheduleRow, due: Due): void {
    const { rows, log } = this.#deps
    const cluster = this.#cluster
    const record = () => {
      const firing = rows.fire(row.id, due)
      if (firing !== undefined) void this.#perform(firing)
    }
    if (cluster === undefined || due.fireAt === undefined) {
      record()
      return
    }
    if (this.#claiming.has(row.id) || !cluster.mayFire(row)) return
    this.#claiming.add(row.id)
    void cluster
      .claim(row, due.fireAt)
      .then((whose) => {
        if (whose === 'mine') record()
        else if (whose === 'lost') rows.fire(row.id, { ...due, fireAt: undefined })
        // Else the record of the host that fires it comes, with the next time. Until then its host may be lost.
      })
      .catch((err: unknown) => log.warn({ err, schedule: row.name }, 'a firing could not be claimed yet'))
      .finally(() => this.#claiming.delete(row.id))
  }

  /** Finishes what lost hosts have begun. */
  async #resumeLost(cluster: ScheduleCluster): Promise<void> {
    const { rows, log } = this.#deps
    if (this.#isResuming) return
    this.#isResuming = true
    try {
      for (const firing of rows.open()) if (await cluster.takeLost(firing)) await this.#resume(firing)
    } catch (err) {
      log.warn({ err }, 'firings of a lost host are not finished yet')
    } finally {
      this.#isResuming = false
    }
  }

  /** Finishes what an earlier server began. */
  async #resume(firing: Firing): Promise<void> {
    const { rows, clock, log } = this.#deps
    try {
      if ((await this.#cluster?.isMine(firing)) === false) return
      // The request may have reached the program: sending it again could do its work twice.
      if (firing.state === 'sent')
        rows.finish(firing, 'failed', { error: 'The server ended during the request.' }, clock.wallMs())
      else await this.#perform(firing)
    } catch (err) {
      log.warn({ err }, 'a firing of an earlier server could not be finished')
    }
  }

  create(request: CreateSchedule, { keyId }: Caller): ScheduleAnswer {
    const { rows, clock } = this.#deps
    if (rows.count(keyId) >= SCHEDULES_MAX)
      throw new DormouseError('limit_reached', `This key has ${SCHEDULES_MAX} schedules.`)
    const now = clock.wallMs()
    const row: ScheduleRow = {
      ...{ ...request, id: randomUUID(), owner: keyId, createdAt: now, settledAt: now, nextAt: undefined },
    }
    const whole = { ...row, nextAt: this.#nextOf(row) }
    rows.add(whole)
    return scheduleView(whole, undefined)
  }

  get(name: string, caller: Caller): ScheduleAnswer {
    return this.#view(this.#row(name, caller))
  }

  list(query: { limit: number; cursor?: string }, { keyId }: Caller): Page<ScheduleAnswer> {
    const page = this.#deps.rows.list(query, keyId)
    return { ...page, items: page.items.map((row) => this.#view(row)) }
  }

  update(name: string, change: UpdateSchedule, caller: Caller): ScheduleAnswer {
    // Times that passed while it was off do not count as missed.
    const row = { ...this.#row(name, caller), ...change, settledAt: this.#deps.clock.wallMs() }
    this.#deps.rows.put({ ...row, nextAt: this.#nextOf(row) })
    return this.get(name, caller)
  }

  delete(name: string, caller: Caller): void {
    this.#deps.rows.delete(this.#row(name, caller).id)
  }

  async fire(name: string, caller: Caller): Promise<FiringAnswer> {
    const { rows, clock } = this.#deps
    const { id } = this.#row(name, caller)
    const firing = rows.addFiring(id, clock.wallMs())
    if (firing === undefined) throw new DormouseError('conflict', 'The schedule is firing.')
    await this.#perform(firing)
    const found = rows.firings(id, FIRINGS_LISTED_MAX).find(({ at }) => Date.parse(at) === firing.at)
    if (found === undefined) throw new DormouseError('not_found', 'The schedule was deleted.')
    return found
  }

  firings(name: string, caller: Caller): readonly FiringAnswer[] {
    return this.#deps.rows.firings(this.#row(name, caller).id, FIRINGS_LISTED_MAX)
  }

  #nextOf({ cron, timezone, enabled, settledAt }: ScheduleRow): number | undefined {
    const times = cronTimes(cron, timezone)
    return enabled ? times.next(settledAt) : undefined
  }

  /**
   * The clock was set back, or it was wrong before: schedules that are ahead of it come back. A time that has fired
   * does not fire again, because it is on record.
   */
  #settleAgain(now: number): void {
    for (const row of this.#deps.rows.enabled()) {
      if (row.settledAt <= now) continue
      this.#deps.rows.put({ ...row, settledAt: now, nextAt: this.#nextOf({ ...row, settledAt: now }) })
    }
  }

  #view(row: ScheduleRow): ScheduleAnswer {
    return scheduleView(row, this.#deps.rows.firings(row.id, 1)[0])
  }

  #row(name: string, { keyId }: Caller): ScheduleRow {
    const row = this.#deps.rows.named(keyId, name)
    if (row === undefined) throw new DormouseError('not_found', `There is no schedule named "${name}".`)
    return row
  }

  async #perform(firing: Firing): Promise<void> {
    const { rows, clock, findKey, log } = this.#deps
    const row = rows.get(firing.scheduleId)
    if (row === undefined) return
    const { signal } = this.#stop
    let isSent = false
    const finish = (state: 'done' | 'failed', outcome: FiringOutcome) => {
      try {
        rows.finish(firing, state, outcome, clock.wallMs())
      } catch (err) {
        log.warn({ err, schedule: row.name }, 'the end of a firing could not be recorded')
      }
    }
    for (let tries = 1; ; tries += 1) {
      try {
        if (findKey(row.owner) === undefined) throw new DormouseError('unauthorized', 'The key was revoked.')
        const key = `schedule-${firing.scheduleId}-${firing.at}`
        const caller = { keyId: row.owner, isAdmin: false }
        await this.#cluster?.prepare(row)
        const onSend = () => {
          rows.markSent(firing)
          isSent = true
        }
        return finish(
          'done',
          await performAction(this.#deps, { action: row.action, caller, key, onSend, signal }),
        )
      } catch (error) {
        // The next server does it.
        if (signal.aborted) return
        const mayRepeat = error instanceof DormouseError && error.retry && !isSent && tries < TRIES_MAX
        if (!mayRepeat) return finish('failed', { error: messageOf(error) })
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** tries).unref())
      }
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof DormouseError ? error.message.slice(0, 1_000) : 'The action failed.'
}
