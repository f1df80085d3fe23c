import { type JobId, newSandboxId, type SandboxId } from '@dormouse/contracts'
import type { ServerClock } from '../clock/server-clock.ts'
import type { Log } from '../log.ts'
import type { Runs } from '../runs/runs.ts'
import type { JobCommand, JobOutcome } from './job-command.ts'
import type { JobLog } from './job-log.ts'
import type { JobRow, JobRows } from './job-rows.ts'
import type { JobSandboxes } from './job-sandboxes.ts'
import { OTHERS_FINISH_MS, OTHERS_FIRST_MS, RECORD_RETRY_MS } from './limits.ts'
import { comesBefore, LiveJob } from './live-job.ts'
import { type AttemptOutcome, runAttempt } from './run-attempt.ts'
import { isReusableAfter, settle } from './settle-attempt.ts'
import type { Attempt, TaskRow, TaskRows } from './task-rows.ts'

export interface JobQueueDependencies {
  readonly rows: JobRows
  readonly tasks: TaskRows
  readonly jobLog: () => JobLog
  readonly sandboxes: JobSandboxes
  readonly runs: Pick<Runs, 'start'>
  readonly clock: Pick<ServerClock, 'wallMs'>
  /** How many tasks of all jobs run at once on this host. */
  readonly maxTasks: number
  readonly log: Log
  /** Called when readers of the job may see more, and when it has ended. */
  readonly onChange: (id: JobId) => void
  readonly onEnd: (row: JobRow) => void
}

/** A timer must not overflow. */
const TIMER_MAX_MS = 60_000

/** Starts tasks of all jobs, as many as there is room for on this host, and records how they end. */
export class JobQueue {
  readonly #deps: JobQueueDependencies
  readonly #jobs = new Map<JobId, LiveJob>()
  #running = 0
  #timer: NodeJS.Timeout | undefined
  #isPumping = false
  #mustPumpAgain = false
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
    for (const job of this.#jobs.values()) for (const { stop } of job.running.values()) stop.abort()
  }

  /** Continues with a job of an earlier server. */
  resume(row: JobRow): void {
    const job = new LiveJob(row)
    this.#jobs.set(row.id, job)
    this.#resumeTasks(job)
    this.#pump()
    this.#endIfDone(job)
  }

  /** A command was applied to the rows, on this host or on all. */
  applied(command: JobCommand, outcome: JobOutcome): void {
    const { type, jobId } = command
    if (this.#isStopped || outcome === false) return
    if (type === 'start' || type === 'import') this.#addLive(jobId)
    const job = this.#jobs.get(jobId)
    if (job === undefined || !this.#refresh(job)) return
    if (type === 'claim' && typeof outcome === 'object') this.#begun(job, command, outcome)
    if (type === 'cancel') for (const { stop } of job.running.values()) stop.abort()
    if (type === 'lose') this.#stopLost(job)
    if (type === 'renew') this.#resumeTasks(job)
    if (type === 'end') this.#endSoon(job)
    job.mayHaveQueued = type !== 'cancel'
    job.visibleSeq = job.row.lastSeq
    if (type !== 'claim') this.#deps.onChange(jobId)
    this.#pump()
  }

  /** Looks for tasks that this host may take now. */
  poke(): void {
    for (const job of this.#jobs.values()) job.mayHaveQueued = true
    this.#pump()
  }

  async cancel(id: JobId): Promise<void> {
    const { jobLog, clock } = this.#deps
    await jobLog().submit({ type: 'cancel', jobId: id, now: clock.wallMs() })
    const job = this.#jobs.get(id)
    if (job !== undefined) this.#endIfDone(job)
  }

  #addLive(id: JobId): void {
    const row = this.#deps.rows.get(id)
    if (row === undefined || this.#jobs.has(id)) return
    if (row.state === 'running' || row.state === 'cancelling') this.#jobs.set(id, new LiveJob(row))
  }

  #begun(job: LiveJob, command: Extract<JobCommand, { type: 'claim' }>, attempt: Attempt): void {
    const { host, epoch } = this.#deps.jobLog().self
    if (command.by.host !== host) job.othersUntil = undefined
    else if (command.by.epoch === epoch) this.#begin(job, attempt)
  }

  /** Another host may have begun them again. */
  #stopLost(job: LiveJob): void {
    const { tasks, jobLog } = this.#deps
    for (const { attempt, stop } of job.running.values())
      if (!tasks.isCurrent(attempt, jobLog().self.host)) stop.abort()
  }

  /** Attempts of this host that it does not follow yet. */
  #resumeTasks(job: LiveJob): void {
    const { tasks, jobLog } = this.#deps
    for (const task of tasks.running(job.row.id, jobLog().self))
      if (!job.running.has(keyOf(task))) this.#resumeTask(job, task)
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
    this.#mustPumpAgain = true
    if (!this.#isPumping) void this.#pumpAll()
  }

  async #pumpAll(): Promise<void> {
    const { clock, maxTasks, log } = this.#deps
    this.#isPumping = true
    try {
      while (this.#mustPumpAgain && !this.#isStopped) {
        this.#mustPumpAgain = false
        while (this.#running < maxTasks && !this.#isStopped) {
          const job = this.#next()
          if (job === undefined) break
          await this.#claim(job)
        }
        this.#wakeAt(this.#nextDueAt())
      }
    } catch (err) {
      log.warn({ err }, 'tasks of jobs cannot start now')
      this.#wakeAt(clock.wallMs() + RECORD_RETRY_MS)
    } finally {
      this.#isPumping = false
    }
  }

  async #claim(job: LiveJob): Promise<void> {
    const { jobLog, clock, sandboxes } = this.#deps
    const sandboxId = job.idleWorkers.pop() ?? newSandboxId()
    let outcome: JobOutcome = false
    try {
      const { id } = job.row
      outcome = await jobLog().submit({
        ...{ type: 'claim', jobId: id, by: jobLog().self, sandboxId, now: clock.wallMs() },
      })
      // Other hosts have taken all that there was, or as many tasks run as may.
      if (outcome === false) job.mayHaveQueued = false
    } finally {
      if (outcome === false && sandboxes.exists(sandboxId)) job.idleWorkers.push(sandboxId)
    }
  }

  #next(): LiveJob | undefined {
    const { tasks, clock, jobLog } = this.#deps
    const now = clock.wallMs()
    for (const job of [...this.#jobs.values()].filter(({ hasRoom }) => hasRoom).sort(comesBefore)) {
      if (tasks.next(job.row.id, now) === undefined) {
        job.mayHaveQueued = tasks.nextDueAt(job.row.id) !== undefined
        continue
      }
      const turn = jobLog().turnOf(job.row)
      if (turn === 'later') job.othersUntil ??= now + OTHERS_FIRST_MS
      if (turn === 'now' || (turn === 'later' && now >= (job.othersUntil ?? now))) return job
      if (turn === 'never') job.othersUntil = now + RECORD_RETRY_MS
    }
    return undefined
  }

  #nextDueAt(): number | undefined {
    const waiting = [...this.#jobs.values()].filter(({ hasRoom }) => hasRoom)
    const due = waiting.flatMap(({ row, othersUntil = 0 }) => {
      const at = this.#deps.tasks.nextDueAt(row.id)
      return at === undefined ? [] : Math.max(at, othersUntil)
    })
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
    job.running.set(keyOf(attempt), { attempt, stop })
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
    if (job.running.delete(keyOf(attempt))) this.#running -= 1
    job.mayHaveQueued = true
    this.#pump()
    this.#endIfDone(job)
  }

  /** Repeats until it is written: on a full disk the outcome waits here, and no other task of the job begins. */
  async #record(job: LiveJob, attempt: Attempt, outcome: AttemptOutcome): Promise<void> {
    const { clock, log, jobLog } = this.#deps
    for (;;) {
      try {
        const { row } = job
        await jobLog().submit(settle({ job: row, attempt, outcome, now: clock.wallMs() }))
        return
      } catch (err) {
        log.warn({ err, jobId: job.row.id }, 'the end of a task could not be recorded yet')
        await new Promise((resolve) => setTimeout(resolve, RECORD_RETRY_MS).unref())
        if (this.#isStopped) return
      }
    }
  }

  /** False when the job is gone. */
  #refresh(job: LiveJob): boolean {
    const row = this.#deps.rows.get(job.row.id)
    if (row === undefined || row.state === 'finished' || row.state === 'cancelled') {
      this.#jobs.delete(job.row.id)
      void this.#leave(job)
      if (row !== undefined) job.row = row
      this.#deps.onChange(job.row.id)
      return false
    }
    job.row = row
    return true
  }

  /** The host that records the last end finishes the job, once its sandbox is gone. The others do so if it does not. */
  #endSoon(job: LiveJob): void {
    if (job.running.size === 0) setTimeout(() => this.#endIfDone(job), OTHERS_FINISH_MS).unref()
  }

  #endIfDone(job: LiveJob): void {
    const { total, succeeded, failed, cancelled, id } = job.row
    if (job.running.size > 0 || job.isEnding || this.#isStopped || !this.#jobs.has(id)) return
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
    const { rows, jobLog, clock, onEnd } = this.#deps
    const { id } = job.row
    await this.#leave(job)
    if ((await jobLog().submit({ type: 'finish', jobId: id, now: clock.wallMs() })) === false) return
    const row = rows.get(id)
    if (row !== undefined) onEnd(row)
  }

  async #leave(job: LiveJob): Promise<void> {
    const { sandboxes } = this.#deps
    if (job.isLeft) return
    job.isLeft = true
    await Promise.all(job.idleWorkers.splice(0).map((worker: SandboxId) => sandboxes.remove(worker)))
    await sandboxes.removeOrigin(job.row)
  }
}

function keyOf({ index, attempts }: TaskRow): string {
  return `${index}.${attempts}`
}
