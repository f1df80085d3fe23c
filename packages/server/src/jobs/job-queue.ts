import { DormouseError, type JobId, newSandboxId, type SandboxId } from '@dormouse/contracts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { Runs } from '../runs/runs.ts'
import type { JobRow, JobRows } from './job-rows.ts'
import type { JobSandboxes } from './job-sandboxes.ts'
import { RECORD_RETRY_MS } from './limits.ts'
import { comesBefore, LiveJob } from './live-job.ts'
import { type AttemptOutcome, runAttempt } from './run-attempt.ts'
import { isReusableAfter, settle } from './settle-attempt.ts'
import type { Attempt, TaskRow, TaskRows } from './task-rows.ts'

export interface JobQueueDependencies {
  readonly rows: JobRows
  readonly tasks: TaskRows
  readonly sandboxes: JobSandboxes
  readonly runs: Pick<Runs, 'start'>
  readonly clock: Pick<ServerClock, 'wallMs'>
  /** How many tasks of all jobs run at once. */
  readonly maxTasks: number
  readonly log: Log
  /** Called when readers of the job may see more, and when it has ended. */
  readonly onChange: (id: JobId) => void
  readonly onEnd: (row: JobRow) => void
}

/** A timer must not overflow. */
const TIMER_MAX_MS = 60_000

/** Starts tasks of all jobs, as many as there is room for, and records how they end. */
export class JobQueue {
  readonly #deps: JobQueueDependencies
  readonly #jobs = new Map<JobId, LiveJob>()
  #running = 0
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(deps: JobQueueDependencies) {
    this.#deps = deps
  }

  find(id: JobId): LiveJob | undefined {
    return this.#jobs.get(id)
  }

  /** Jobs under way of an owner. */
  countOf(owner: string): number {
    return [...this.#jobs.values()].filter(({ row }) => row.owner === owner).length
  }

  /** Begins nothing more. Attempts under way continue in their sandboxes, and the next server follows them. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    for (const job of this.#jobs.values()) for (const stop of job.running.values()) stop.abort()
  }

  add(row: JobRow): void {
    this.#jobs.set(row.id, new LiveJob(row))
    this.#pump()
  }

  /** Continues with a job of an earlier server. */
  resume(row: JobRow): void {
    const job = new LiveJob(row)
    this.#jobs.set(row.id, job)
    for (const task of this.#deps.tasks.running(row.id)) this.#resumeTask(job, task)
    this.#pump()
    this.#endIfDone(job)
  }

  cancel(id: JobId): void {
    const job = this.#jobs.get(id)
    if (job === undefined) return
    this.#deps.rows.cancel(id, this.#deps.clock.wallMs())
    this.#refresh(job)
    job.mayHaveQueued = false
    job.visibleSeq = job.row.lastSeq
    for (const stop of job.running.values()) stop.abort()
    this.#deps.onChange(id)
    this.#endIfDone(job)
  }

  /** Only if its sandbox lives can an attempt continue. */
  #resumeTask(job: LiveJob, task: TaskRow): void {
    const { sandboxes } = this.#deps
    const { sandboxId } = task
    if (sandboxId !== undefined && sandboxes.exists(sandboxId)) this.#begin(job, { ...task, sandboxId })
    else {
      const attempt = { ...task, sandboxId: sandboxId ?? newSandboxId() }
      void this.#finish(job, attempt, { kind: 'lost', message: 'The server ended during this attempt.' })
    }
  }

  #pump(): void {
    if (this.#isStopped) return
    const { tasks, clock, maxTasks, log } = this.#deps
    try {
      while (this.#running < maxTasks) {
        const next = this.#next()
        if (next === undefined) break
        const sandboxId = next.job.idleWorkers.pop() ?? newSandboxId()
        try {
          this.#begin(next.job, tasks.claim(next.task, sandboxId, clock.wallMs()))
        } catch (error) {
          if (this.#deps.sandboxes.exists(sandboxId)) next.job.idleWorkers.push(sandboxId)
          throw error
        }
      }
      this.#wakeAt(this.#nextDueAt())
    } catch (err) {
      log.warn({ err }, 'tasks of jobs cannot start now')
      this.#wakeAt(clock.wallMs() + RECORD_RETRY_MS)
    }
  }

  #next(): { job: LiveJob; task: TaskRow } | undefined {
    const { tasks, clock } = this.#deps
    const now = clock.wallMs()
    for (const job of [...this.#jobs.values()].filter(({ hasRoom }) => hasRoom).sort(comesBefore)) {
      const task = tasks.next(job.row.id, now)
      if (task !== undefined) return { job, task }
      job.mayHaveQueued = tasks.nextDueAt(job.row.id) !== undefined
    }
    return undefined
  }

  #nextDueAt(): number | undefined {
    const waiting = [...this.#jobs.values()].filter(({ hasRoom }) => hasRoom)
    const due = waiting.flatMap(({ row }) => this.#deps.tasks.nextDueAt(row.id) ?? [])
    return due.length === 0 || this.#running >= this.#deps.maxTasks ? undefined : Math.min(...due)
  }

  #wakeAt(atMs: number | undefined): void {
    clearTimeout(this.#timer)
    if (atMs === undefined || this.#isStopped) return
    const delayMs = Math.min(TIMER_MAX_MS, Math.max(1, atMs - this.#deps.clock.wallMs()))
    this.#timer = setTimeout(() => this.#pump(), delayMs)
    this.#timer.unref()
  }

  #begin(job: LiveJob, attempt: Attempt): void {
    const { sandboxes, runs, log } = this.#deps
    const stop = new AbortController()
    job.running.set(attempt.index, stop)
    this.#running += 1
    const open = (signal: AbortSignal) => sandboxes.open(job.row, attempt.sandboxId, signal)
    if (job.row.state === 'cancelling') stop.abort()
    void runAttempt(job.row, attempt, { runs, open, signal: stop.signal })
      .then((outcome) => this.#finish(job, attempt, outcome))
      .catch((err: unknown) => log.error({ err, jobId: job.row.id }, 'a task could not be ended'))
  }

  async #finish(job: LiveJob, attempt: Attempt, outcome: AttemptOutcome): Promise<void> {
    // The next server continues with it.
    if (this.#isStopped) return
    await this.#record(job, attempt, outcome)
    if (this.#isStopped) return
    const isWorker = job.row.request.sandboxPer === 'worker' && isReusableAfter(outcome)
    if (isWorker && job.row.state === 'running') job.idleWorkers.push(attempt.sandboxId)
    else await this.#deps.sandboxes.remove(attempt.sandboxId)
    if (job.running.delete(attempt.index)) this.#running -= 1
    this.#pump()
    this.#endIfDone(job)
  }

  /** Repeats until it is written: on a full disk the outcome waits here, and no other task of the job begins. */
  async #record(job: LiveJob, attempt: Attempt, outcome: AttemptOutcome): Promise<void> {
    const { tasks, clock, log, onChange } = this.#deps
    for (;;) {
      try {
        const now = clock.wallMs()
        if (settle(tasks, { job: job.row, attempt, outcome, now }) === 'queued') job.mayHaveQueued = true
        await tasks.sync()
        this.#refresh(job)
        job.visibleSeq = job.row.lastSeq
        onChange(job.row.id)
        return
      } catch (err) {
        log.warn({ err, jobId: job.row.id }, 'the end of a task could not be recorded yet')
        await new Promise((resolve) => setTimeout(resolve, RECORD_RETRY_MS).unref())
        if (this.#isStopped) return
      }
    }
  }

  #refresh(job: LiveJob): void {
    const row = this.#deps.rows.get(job.row.id)
    if (row === undefined) throw new DormouseError('internal', `There is no job ${job.row.id}.`)
    job.row = row
  }

  #endIfDone(job: LiveJob): void {
    if (job.running.size > 0 || job.isEnding || this.#isStopped) return
    const { total, succeeded, failed, cancelled, id } = job.row
    if (succeeded + failed + cancelled < total) return
    job.isEnding = true
    void this.#end(job).catch((err: unknown) => {
      job.isEnding = false
      this.#deps.log.warn({ err, jobId: id }, 'the end of a job could not be recorded yet')
      setTimeout(() => this.#endIfDone(job), RECORD_RETRY_MS).unref()
    })
  }

  /** A job has ended when its sandboxes are gone. */
  async #end(job: LiveJob): Promise<void> {
    const { rows, sandboxes, clock, onChange, onEnd } = this.#deps
    const { id } = job.row
    await Promise.all(job.idleWorkers.splice(0).map((worker: SandboxId) => sandboxes.remove(worker)))
    await sandboxes.removeOrigin(job.row)
    rows.end(id, clock.wallMs())
    this.#refresh(job)
    this.#jobs.delete(id)
    onEnd(job.row)
    onChange(id)
  }
}
