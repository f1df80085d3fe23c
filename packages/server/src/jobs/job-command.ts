import type { JobId, SandboxId, SnapshotId } from '@dormouse/contracts'
import type { JobRows, NewJob, WholeJob } from './job-rows.ts'
import { LOSSES_MAX } from './limits.ts'
import type { Attempt, AttemptRef, Requeue, TaskEnd, TaskRows, Worker } from './task-rows.ts'

/**
 * Everything that changes a job. The outcome follows from the command and the rows of its job alone: hosts that apply the
 * same commands in the same order have the same rows.
 */
export type JobCommand =
  | { readonly type: 'add'; readonly jobId: JobId; readonly job: NewJob; readonly by: Worker }
  | {
      readonly type: 'start'
      readonly jobId: JobId
      readonly snapshot: { readonly id: SnapshotId; readonly isOwn: boolean } | undefined
    }
  /** Takes the next task that is due, if the job may run one more. */
  | {
      readonly type: 'claim'
      readonly jobId: JobId
      readonly by: Worker
      readonly sandboxId: SandboxId
      readonly now: number
    }
  | {
      readonly type: 'end'
      readonly jobId: JobId
      readonly attempt: AttemptRef
      readonly end: TaskEnd
      readonly now: number
    }
  | {
      readonly type: 'requeue'
      readonly jobId: JobId
      readonly attempt: AttemptRef
      readonly requeue: Requeue
      readonly now: number
    }
  /** The lease of a host has ended. Its attempts make room for others. */
  | { readonly type: 'lose'; readonly jobId: JobId; readonly by: Worker; readonly now: number }
  /** A host has a new lease, and continues with its attempts. */
  | { readonly type: 'renew'; readonly jobId: JobId; readonly by: Worker; readonly epoch: number }
  | { readonly type: 'cancel'; readonly jobId: JobId; readonly now: number }
  /** All tasks have ended. */
  | { readonly type: 'finish'; readonly jobId: JobId; readonly now: number }
  | { readonly type: 'delete'; readonly jobId: JobId }
  /** A job from before its host joined the cluster. */
  | { readonly type: 'import'; readonly jobId: JobId; readonly whole: WholeJob }

/** `claim`: the attempt. Others: whether the command has changed anything. */
export type JobOutcome = Attempt | boolean

export interface JobTables {
  readonly rows: JobRows
  readonly tasks: TaskRows
}

/** `self`: the host that applies it; empty outside a cluster. */
export function applyCommand(
  { rows, tasks }: JobTables,
  command: JobCommand,
  { self }: { self: string },
): JobOutcome {
  switch (command.type) {
    case 'add':
      return rows.add(command.job, command.by)
    case 'start':
      return rows.start(command.jobId, command.snapshot)
    case 'claim':
      return applyClaim({ rows, tasks }, command, self)
    case 'end':
      return tasks.end(command.attempt, command.end, command.now)
    case 'requeue':
      return applyRequeue({ rows, tasks }, command)
    case 'lose':
      return applyLose({ rows, tasks }, command)
    case 'renew':
      return tasks.renew(command.jobId, command.by, command.epoch)
    case 'cancel':
      return rows.cancel(command.jobId, command.now)
    case 'finish':
      return rows.end(command.jobId, command.now)
    case 'delete':
      return rows.delete(command.jobId)
    case 'import':
      return rows.import(command.whole)
  }
}

type Of<Type extends JobCommand['type']> = Extract<JobCommand, { type: Type }>

function applyClaim({ rows, tasks }: JobTables, command: Of<'claim'>, self: string): JobOutcome {
  const job = rows.get(command.jobId)
  if (job?.state !== 'running' || tasks.countRunning(job.id) >= job.request.concurrency) return false
  const task = tasks.next(job.id, command.now)
  if (task === undefined) return false
  const { sandboxId, now, by } = command
  return tasks.claim(task, { sandboxId, now, by, isHere: by.host === self })
}

/** A job that is being cancelled has no queue any more. */
function applyRequeue({ rows, tasks }: JobTables, { attempt, requeue, now }: Of<'requeue'>): boolean {
  if (rows.get(attempt.jobId)?.state === 'running') return tasks.requeue(attempt, requeue)
  return tasks.end(attempt, { state: 'cancelled', reason: 'cancelled' }, now)
}

function applyLose({ rows, tasks }: JobTables, { jobId, by, now }: Of<'lose'>): boolean {
  const job = rows.get(jobId)
  if (job === undefined) return false
  if (job.state === 'starting')
    return job.by.host === by.host && job.by.epoch === by.epoch && rows.delete(jobId)
  const lost = tasks.running(jobId, by)
  const message = `Host ${by.host} was lost during this attempt.`
  for (const attempt of lost) {
    if (job.state === 'cancelling') tasks.end(attempt, { state: 'cancelled', reason: 'cancelled' }, now)
    // Code may be what ends its hosts.
    else if (attempt.losses >= LOSSES_MAX)
      tasks.end(attempt, { state: 'failed', reason: 'lost', message }, now)
    else tasks.requeue(attempt, { why: 'losses', reason: 'lost', dueAt: now, message })
  }
  return lost.length > 0
}
