import { createHash } from 'node:crypto'
import { DormouseError, hasErrorCode, type JobId, newJobId, type SnapshotId } from '@dormouse/contracts'
import {
  DEFAULT_TEMPLATE,
  type JobAnswer,
  type JobEventAnswer,
  type TaskAnswer,
  type TaskPageAnswer,
} from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import { RunSignals } from '../runs/run-signals.ts'
import type { Runs } from '../runs/runs.ts'
import type { Page } from '../store/page.ts'
import { type JobLog, LocalJobLog } from './job-log.ts'
import { JobQueue } from './job-queue.ts'
import type { CreateJob, JobRequest, JobRow, JobRows, NewJob } from './job-rows.ts'
import { callerOf, type JobSandboxDependencies, JobSandboxes } from './job-sandboxes.ts'
import { jobView } from './job-view.ts'
import type { Jobs, ReadJobEvents } from './jobs.ts'
import { EVENTS_PAGE, INPUTS_MAX_BYTES, LIVE_JOBS_MAX } from './limits.ts'
import type { TaskRows } from './task-rows.ts'

const DAY_MS = 86_400_000

export interface JobDependencies extends JobSandboxDependencies {
  readonly rows: JobRows
  readonly tasks: TaskRows
  readonly runs: Pick<Runs, 'start'>
  readonly clock: Pick<ServerClock, 'wallMs' | 'confirmedWallMs'>
  readonly log: Log
  readonly maxTasks: number
  /** How long ended jobs are kept, and how much the results of all jobs may take. */
  readonly keepDays: number
  readonly maxBytes: number
  /** Undefined when the key is revoked. */
  readonly findKey: (keyId: string) => object | undefined
  readonly onJob?: (type: 'job.created' | 'job.ended', job: JobAnswer, owner: string) => void
}

type Snapshot = { readonly id: SnapshotId; readonly isOwn: boolean }

/** Creates, finds, cancels and deletes jobs, and continues with those of earlier servers. */
export class JobService implements Jobs, Disposable {
  readonly #deps: JobDependencies
  readonly #sandboxes: JobSandboxes
  readonly #queue: JobQueue
  readonly #signals = new RunSignals()
  #log: JobLog

  constructor(deps: JobDependencies) {
    this.#deps = deps
    this.#log = new LocalJobLog(deps)
    this.#log.listen((...applied) => this.#queue.applied(...applied))
    this.#sandboxes = new JobSandboxes(deps)
    this.#queue = new JobQueue({
      ...{ ...deps, jobLog: () => this.#log },
      sandboxes: this.#sandboxes,
      onChange: (id) => this.#signals.notify(id),
      onEnd: (row) => {
        deps.onJob?.('job.ended', jobView(row, 0), row.owner)
        void this.#prune()
      },
    })
  }

  /** Jobs are the cluster's. Call it before `open`. Pre: the rows have what the log has. */
  join(log: JobLog): void {
    this.#log = log
    log.listen((...applied) => this.#queue.applied(...applied))
  }

  /** Looks for tasks that this host may take now. */
  poke(): void {
    this.#queue.poke()
  }

  /** Starts nothing more. Tasks under way continue in their sandboxes. */
  stop(): void {
    this.#queue.stop()
  }

  [Symbol.dispose](): void {
    this.stop()
    this.#signals.notifyAll()
  }

  /** Continues with jobs of earlier servers. Pre: sandboxes and runs are recovered. */
  async open(): Promise<void> {
    const { rows, tasks, findKey } = this.#deps
    const { self } = this.#log
    const live = rows.live()
    const running = live.flatMap(({ id }) => tasks.running(id, self))
    const underWay = new Set(running.map(({ sandboxId }) => sandboxId))
    for (const { sandboxId } of tasks.sandboxes())
      if (!underWay.has(sandboxId)) await this.#sandboxes.remove(sandboxId)
    for (const row of live) {
      if (row.state !== 'starting') this.#queue.resume(row)
      else if (row.by.host === self.host) await this.#forget(row)
      if (findKey(row.owner) === undefined) await this.#queue.cancel(row.id)
    }
    await this.#prune()
  }

  async create(request: CreateJob, caller: Caller): Promise<{ job: JobAnswer; isNew: boolean }> {
    const { inputs, idempotencyKey, ...rest } = request
    const requestHash = hashOf(request)
    const found = this.#earlier(caller, idempotencyKey, requestHash)
    if (found !== undefined) return { job: this.#view(found), isNew: false }
    const texts = inputs.map((input) => JSON.stringify(input))
    await this.#requireRoom(caller, texts)
    const owner = callerOf({ owner: caller.keyId })
    const id = newJobId()
    const job: NewJob = {
      ...{ id, owner: owner.keyId, inputs: texts, idempotencyKey, requestHash },
      request: this.#withOrigin(rest, owner),
      createdAt: this.#deps.clock.wallMs(),
    }
    const isAdded = await this.#log.submit({ type: 'add', jobId: id, job, by: this.#log.self })
    // Another request with the same key came first, while this one was checked.
    if (isAdded === false) return this.create(request, caller)
    return { job: await this.#start(id, rest, owner), isNew: true }
  }

  async #start(
    id: JobId,
    request: Pick<CreateJob, 'sandbox' | 'snapshot'>,
    owner: Caller,
  ): Promise<JobAnswer> {
    try {
      const snapshot = await this.#takeSnapshot(id, request, owner)
      await this.#log.submit({ type: 'start', jobId: id, snapshot })
    } catch (error) {
      await this.#forget(this.#row(id, owner))
      throw error
    }
    const row = this.#row(id, owner)
    const job = this.#view(row)
    this.#deps.onJob?.('job.created', job, row.owner)
    return job
  }

  get(id: string, caller: Caller): JobAnswer {
    return this.#view(this.#row(id, caller))
  }

  list(query: { limit: number; cursor?: string }, caller: Caller): Page<JobAnswer> {
    const page = this.#deps.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { ...page, items: page.items.map((row) => this.#view(row)) }
  }

  task(id: string, index: number, caller: Caller): TaskAnswer {
    const task = this.#deps.tasks.get(this.#row(id, caller).id, index)
    if (task === undefined) throw new DormouseError('not_found', `The job ${id} has no task ${index}.`)
    return task
  }

  tasks(
    id: string,
    query: { state?: TaskAnswer['state']; after: number; limit: number; results: boolean },
    caller: Caller,
  ): TaskPageAnswer {
    const row = this.#row(id, caller)
    const found = this.#deps.tasks.list(row.id, { ...query, limit: query.limit + 1 })
    const items = found.slice(0, query.limit)
    return { items, nextAfter: found.length > query.limit ? items.at(-1)?.index : undefined }
  }

  async *events(
    id: string,
    { after, results, signal }: ReadJobEvents,
    caller: Caller,
  ): AsyncGenerator<JobEventAnswer> {
    let seq = after
    while (!signal.aborted) {
      const row = this.#row(id, caller)
      const visible = this.#queue.find(row.id)?.visibleSeq ?? row.lastSeq
      const page = this.#deps.tasks
        .ended(row.id, { after: seq, limit: EVENTS_PAGE, results })
        .filter((event) => event.seq <= visible)
      for (const event of page) {
        seq = event.seq
        yield { type: 'task', ...event }
      }
      if (page.length > 0) continue
      if (row.state === 'finished' || row.state === 'cancelled') {
        yield { seq: row.lastSeq + 1, type: 'end', job: this.#view(row) }
        return
      }
      await this.#signals.wait(row.id, signal)
    }
  }

  async cancel(id: string, caller: Caller): Promise<JobAnswer> {
    const row = this.#row(id, caller)
    if (row.state === 'running') await this.#queue.cancel(row.id)
    return this.get(id, caller)
  }

  async delete(id: string, caller: Caller): Promise<void> {
    const row = this.#row(id, caller)
    if (row.state !== 'finished' && row.state !== 'cancelled')
      throw new DormouseError('in_use', 'The job is under way.', { hint: 'Cancel it first.' })
    await this.#log.submit({ type: 'delete', jobId: row.id })
  }

  requireUnused(snapshotId: string): void {
    const user = this.#deps.rows.live().find((row) => row.snapshotId === snapshotId)
    if (user !== undefined)
      throw new DormouseError('in_use', `The job ${user.id} starts sandboxes from this snapshot.`, {
        hint: 'Cancel the job, or wait for its end.',
      })
  }

  #view(row: JobRow): JobAnswer {
    return jobView(row, this.#deps.tasks.countRunning(row.id))
  }

  #row(id: string, caller: Caller): JobRow {
    const row = this.#deps.rows.get(id)
    if (row === undefined || !(caller.isAdmin || row.owner === caller.keyId))
      throw new DormouseError('not_found', `There is no job ${id}.`, {
        hint: 'Jobs that ended long ago are deleted. List those that are there.',
      })
    return row
  }

  #earlier({ keyId }: Caller, key: string | undefined, hash: string): JobRow | undefined {
    const row = key === undefined ? undefined : this.#deps.rows.byKey(keyId, key)
    if (row !== undefined && row.requestHash !== hash)
      throw new DormouseError('idempotency_mismatch', 'This idempotencyKey was used for another request.')
    if (row?.state === 'starting')
      throw new DormouseError('conflict', 'The same request is being handled.', {
        details: { jobId: row.id },
      })
    return row
  }

  async #requireRoom({ keyId }: Caller, inputs: readonly string[]): Promise<void> {
    if (inputs.reduce((bytes, input) => bytes + input.length, 0) > INPUTS_MAX_BYTES)
      throw new DormouseError('too_large', 'The inputs are too large together.', {
        hint: 'Write them to a volume, and give their paths as inputs.',
      })
    if (this.#queue.countOf(keyId) >= LIVE_JOBS_MAX)
      throw new DormouseError('limit_reached', `This key has ${LIVE_JOBS_MAX} jobs under way.`)
    await this.#prune()
    if (this.#deps.rows.totalBytes() > this.#deps.maxBytes)
      throw new DormouseError('limit_reached', 'The results of jobs under way use all the space for results.')
  }

  /** Tasks in forks of a sandbox have what the sandbox has, unless the request says otherwise. */
  #withOrigin(
    { sandbox, ...request }: Omit<CreateJob, 'inputs' | 'idempotencyKey'>,
    owner: Caller,
  ): JobRequest {
    const { sandboxes } = this.#deps
    const { isolation, volumes: mounted = [] } = request
    if (isolation !== undefined) sandboxes.requireIsolation(isolation, { volumes: mounted })
    if (request.snapshot !== undefined) sandboxes.getSnapshot(request.snapshot, owner)
    const isTemplate = sandbox === undefined && request.snapshot === undefined
    if (sandbox === undefined) return isTemplate ? { template: DEFAULT_TEMPLATE, ...request } : request
    const { id } = sandboxes.get(sandbox, owner)
    const row = sandboxes.find(id)?.row
    if (row === undefined) throw new DormouseError('not_found', `There is no sandbox ${sandbox}.`)
    const { env, network, secrets, limits } = row
    const volumes = row.volumes.map(({ volume, path, readOnly }) => ({ volume, path, readOnly }))
    const own = { env, volumes, network: { ...network, allow: [...network.allow] }, secrets: [...secrets] }
    return { ...own, ...request, limits: { ...limits, ...request.limits }, sandboxId: id } as JobRequest
  }

  async #takeSnapshot(
    jobId: JobId,
    { sandbox, snapshot }: Pick<CreateJob, 'sandbox' | 'snapshot'>,
    owner: Caller,
  ): Promise<Snapshot | undefined> {
    const { sandboxes } = this.#deps
    if (snapshot !== undefined)
      return { id: sandboxes.getSnapshot(snapshot, owner).id as SnapshotId, isOwn: false }
    if (sandbox === undefined) return undefined
    try {
      // The name tells the next server which snapshot to delete, if this one dies before the job has started.
      const { id } = await sandboxes.get(sandbox, owner).snapshot({ name: jobId, kind: 'full' })
      return { id: id as SnapshotId, isOwn: true }
    } catch (error) {
      // The caller has saved exactly this state, under a name.
      if (!hasErrorCode(error, 'conflict') || error.details['snapshotId'] === undefined) throw error
      return { id: error.details['snapshotId'] as SnapshotId, isOwn: false }
    }
  }

  /** Removes a job that did not start. */
  async #forget(row: JobRow): Promise<void> {
    const { sandboxes } = this.#deps
    const { sandboxId } = row.request
    if (sandboxId !== undefined) {
      const owner = callerOf(row)
      await sandboxes.deleteSnapshot(`${sandboxId}/${row.id}`, owner).catch((error: unknown) => {
        if (!hasErrorCode(error, 'not_found')) throw error
      })
    }
    await this.#log.submit({ type: 'delete', jobId: row.id })
  }

  /** Deletes ended jobs that are too old, and the oldest ones while all results are too large. */
  async #prune(): Promise<void> {
    const { rows, clock, keepDays, maxBytes, log } = this.#deps
    try {
      let bytes = rows.totalBytes()
      const before = clock.confirmedWallMs() - keepDays * DAY_MS
      for (const row of rows.ended()) {
        if (bytes <= maxBytes && (row.finishedAt ?? 0) >= before) continue
        await this.#log.submit({ type: 'delete', jobId: row.id })
        bytes -= row.bytes
      }
    } catch (err) {
      log.warn({ err }, 'old jobs could not be deleted')
    }
  }
}

function hashOf({ idempotencyKey: _, ...request }: CreateJob): string {
  return createHash('sha256').update(JSON.stringify(request)).digest('base64url')
}
