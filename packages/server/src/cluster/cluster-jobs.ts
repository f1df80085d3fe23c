import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { settledWithin } from '@dormouse/async'
import {
  type ClusterConnection,
  diskProblemOf,
  type HostRecord,
  type JobMessage,
  JobStream,
} from '@dormouse/cluster'
import { DormouseError, type JobId, type SnapshotId } from '@dormouse/contracts'
import { applyCommand, type JobCommand, type JobOutcome, type JobTables } from '../jobs/job-command.ts'
import type { JobListener, JobLog, Turn } from '../jobs/job-log.ts'
import type { JobRow } from '../jobs/job-rows.ts'
import type { Worker } from '../jobs/task-rows.ts'
import type { Log } from '../log.ts'
import type { Database } from '../store/database.ts'
import { isConstraintViolation } from '../store/sqlite-error.ts'
import type { Cluster } from './cluster.ts'
import { ClusterJobRows } from './cluster-job-rows.ts'

export interface ClusterJobsOptions extends JobTables {
  readonly connection: ClusterConnection
  readonly replicas: number
  readonly cluster: Cluster
  readonly db: Database
  readonly leaseMs: number
  /** Whether sandboxes can start here from a snapshot, and mount a volume of this name. */
  readonly hasSnapshot: (id: SnapshotId) => boolean
  readonly hasVolume: (name: string) => boolean
  readonly log: Log
}

const RETRY_MS = 1_000
const LOOK_MS = 500
/** How long a host that is behind may take to apply a command of its own. */
const APPLY_MS = 20_000
/** Hosts that were away for less have heard of a deletion before the log forgets the job. */
const FORGET_MS = 60_000

/**
 * Jobs of the whole cluster. Every host applies the same commands in the same order to its own tables, so any host
 * answers for any job, and of two commands that exclude each other the first one in the log counts.
 */
export class ClusterJobs implements JobLog, AsyncDisposable {
  readonly #options: ClusterJobsOptions
  readonly #rows: ClusterJobRows
  readonly #stream: JobStream
  readonly #waiting = new Map<string, (outcome: JobOutcome) => void>()
  readonly #leftSince = new Map<string, number>()
  readonly #ending = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #isLooking = false
  #listener: JobListener = () => {}

  private constructor(options: ClusterJobsOptions, stream: JobStream) {
    this.#options = options
    this.#stream = stream
    this.#rows = new ClusterJobRows(options.db)
  }

  /** Resolves when the tables have what the log has. Pre: this host has a lease. */
  static async open(options: ClusterJobsOptions): Promise<ClusterJobs> {
    const { jetstream, manager, key } = options.connection
    const { replicas } = options
    const jobs = new ClusterJobs(options, await JobStream.open({ jetstream, manager, key, replicas }))
    await jobs.#catchUp()
    options.cluster.onJoined(() => void jobs.#rejoined())
    jobs.#timer = setInterval(() => void jobs.#look(), LOOK_MS).unref()
    return jobs
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort()
    clearInterval(this.#timer)
    await this.#stream[Symbol.asyncDispose]()
  }

  get self(): Worker {
    const { cluster } = this.#options
    return { host: cluster.hostId, epoch: cluster.owned.epoch }
  }

  listen(listener: JobListener): void {
    this.#listener = listener
  }

  async submit(command: JobCommand): Promise<JobOutcome> {
    const id = randomUUID()
    let outcome: JobOutcome | undefined
    const applied = new Promise<void>((resolve) => {
      this.#waiting.set(id, (value) => {
        outcome = value
        resolve()
      })
    })
    try {
      const { jobId } = command
      await this.#stream.append({ jobId, command: id, text: JSON.stringify(command) })
      await settledWithin(applied, APPLY_MS)
      if (outcome === undefined)
        throw new DormouseError('cluster_unavailable', 'This host has not applied a change of a job in time.')
      if (command.type === 'delete' || (command.type === 'add' && outcome === false)) this.#forget(jobId)
      return outcome
    } finally {
      this.#waiting.delete(id)
    }
  }

  turnOf(job: JobRow): Turn {
    const { cluster, tasks } = this.#options
    if (!cluster.isHeld || !this.#hasOrigin(job)) return 'never'
    const hasRoom = (host: HostRecord) => !host.isCordoned && diskProblemOf(host) === undefined
    const free = cluster.hosts.all().filter((host) => hasRoom(host) && cluster.isAlive(host.id))
    const own = cluster.hosts.find(cluster.hostId)
    const isFull = own !== undefined && diskProblemOf(own) !== undefined
    if ((cluster.isCordoned || isFull) && free.length > 0) return 'never'
    const counts = new Map<string, number>()
    for (const { host, count } of tasks.workers()) counts.set(host, (counts.get(host) ?? 0) + count)
    const mine = counts.get(cluster.hostId) ?? 0
    return free.some(({ id }) => (counts.get(id) ?? 0) < mine) ? 'later' : 'now'
  }

  /** The host that has added a job also takes tasks that cannot start anywhere: their ends say why. */
  #hasOrigin({ snapshotId, request, by }: JobRow): boolean {
    const { cluster, hasSnapshot, hasVolume } = this.#options
    if (snapshotId !== undefined && !hasSnapshot(snapshotId)) return false
    return by.host === cluster.hostId || (request.volumes ?? []).every(({ volume }) => hasVolume(volume))
  }

  /**
   * A log that this host knows has all its jobs: those that are missing were deleted. A log that is new to this host has
   * its own version of some jobs, and gets the others from here.
   */
  async #catchUp(): Promise<void> {
    const { rows } = this.#options
    const known = rows.ids()
    const { lastSeq, newestSeq, jobs } = await this.#stream.info()
    const { stream, seq } = this.#rows.place
    const isKnown = stream === this.#stream.id && seq <= lastSeq
    const mine = known.filter((id) => !jobs.has(id))
    for (const id of isKnown ? mine : known.filter((one) => jobs.has(one))) rows.delete(id)
    if (!isKnown) this.#rows.place = { stream: this.#stream.id, seq: 0 }
    const from = { afterSeq: isKnown ? seq : 0, lastSeq: newestSeq }
    await this.#stream.follow(from, (message) => this.#take(message))
    if (!isKnown) for (const id of mine) await this.#import(id)
    await this.#renew()
  }

  async #import(id: JobId): Promise<void> {
    const whole = this.#options.rows.export(id, this.self)
    const command: JobCommand = { type: 'import', jobId: id, whole }
    const message = { jobId: id, command: randomUUID(), text: JSON.stringify(command) }
    await this.#stream.append(message, { isFirst: true })
  }

  /** Repeats until it is recorded: a command that is left out would make this host differ from the others. */
  async #take(message: JobMessage): Promise<void> {
    const { log } = this.#options
    while (!this.#ending.signal.aborted) {
      try {
        if (this.#rows.place.seq < message.seq) this.#apply(message)
        return
      } catch (err) {
        if (!isOfDisk(err)) {
          // The same on every host: it follows from the command alone.
          log.error({ err, jobId: message.jobId }, 'a change of a job makes no sense, and is left out')
          this.#rows.place = { stream: this.#stream.id, seq: message.seq }
          continue
        }
        log.warn({ err }, 'a change of a job could not be applied yet')
        await sleep(RETRY_MS, undefined, { signal: this.#ending.signal }).catch(() => {})
      }
    }
  }

  #apply(message: JobMessage): void {
    const self = this.#options.cluster.hostId
    const place = { stream: this.#stream.id, seq: message.seq }
    const applied = this.#rows.apply(place, () => {
      const text = this.#rows.assemble(message)
      if (text === undefined) return undefined
      const command = JSON.parse(text) as JobCommand
      return { command, outcome: applyCommand(this.#options, command, { self }) }
    })
    if (applied === undefined) return
    this.#listener(applied.command, applied.outcome)
    this.#waiting.get(message.command)?.(applied.outcome)
  }

  /** The log needs nothing of a deleted job. Hosts that hear of it later find that its messages are missing. */
  #forget(jobId: JobId): void {
    const delayMs = Math.max(FORGET_MS, 2 * this.#options.leaseMs)
    setTimeout(() => void this.#stream.purge(jobId).catch(() => {}), delayMs).unref()
  }

  /** Continues with the attempts of this host under its new lease. */
  async #renew(): Promise<void> {
    const { tasks } = this.#options
    const { host, epoch } = this.self
    for (const { jobId, ...by } of tasks.workers())
      if (by.host === host && by.epoch !== epoch)
        await this.submit({ type: 'renew', jobId, by: { host, epoch: by.epoch }, epoch })
  }

  /** Jobs that were deleted while this host was away. */
  async #rejoined(): Promise<void> {
    const { rows, log } = this.#options
    try {
      const known = rows.ids()
      const { jobs } = await this.#stream.info()
      for (const id of known) if (!jobs.has(id)) rows.delete(id)
    } catch (err) {
      log.warn({ err }, 'this host may have jobs that were deleted')
      if (!this.#ending.signal.aborted) setTimeout(() => void this.#rejoined(), RETRY_MS).unref()
    }
  }

  /** Every host renews its own attempts; one of them gives those of lost hosts to the others. */
  async #look(): Promise<void> {
    const { cluster, log } = this.#options
    const [first] = cluster.hosts.all().filter(({ id }) => cluster.isAlive(id))
    if (this.#isLooking || !cluster.isHeld) return
    this.#isLooking = true
    try {
      await this.#renew()
      if (first?.id === cluster.hostId) await this.#loseAll()
    } catch (err) {
      log.warn({ err }, 'the attempts of jobs do not have the right hosts yet')
    } finally {
      this.#isLooking = false
    }
  }

  async #loseAll(): Promise<void> {
    const { tasks } = this.#options
    for (const { jobId, host, epoch } of tasks.workers())
      if (await this.#isOver({ host, epoch }))
        await this.submit({ type: 'lose', jobId, by: { host, epoch }, now: Date.now() })
  }

  /** The lease has ended for good: its host has no newer one that may still continue with its attempts. */
  async #isOver({ host, epoch }: Worker): Promise<boolean> {
    const { cluster, leaseMs } = this.#options
    const { hosts, hostId } = cluster
    const record = hosts.find(host)
    const state = hosts.stateOf(host)
    if (state !== 'left') this.#leftSince.delete(host)
    if (host === hostId || record === undefined || state === 'alive' || record.epoch < epoch) return false
    if (state === 'left') {
      // It may be on its way back, and finds its sandboxes as it left them.
      const since = this.#leftSince.get(host) ?? performance.now()
      this.#leftSince.set(host, since)
      if (performance.now() - since < leaseMs) return false
    }
    return await hosts.end(host, record.epoch)
  }
}

/** The database could not be written: it may be later. */
function isOfDisk(error: unknown): boolean {
  if (error instanceof DormouseError) return true
  return error instanceof Error && 'errcode' in error && !isConstraintViolation(error)
}
