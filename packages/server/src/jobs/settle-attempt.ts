import { DormouseError } from '@dormouse/contracts'
import type { JobCommand } from './job-command.ts'
import type { JobRow } from './job-rows.ts'
import {
  BACKOFF_MAX_MS,
  JOB_RESULTS_MAX_BYTES,
  LOSSES_MAX,
  PAUSE_MAX_MS,
  REFUSAL_PAUSE_MS,
  REFUSALS_MAX,
} from './limits.ts'
import type { AttemptOutcome } from './run-attempt.ts'
import { boundResult, failureOf, short } from './task-result.ts'
import type { Attempt, Requeue, TaskEnd } from './task-rows.ts'

interface Settle {
  readonly job: JobRow
  readonly attempt: Attempt
  readonly outcome: AttemptOutcome
  readonly now: number
}

/** The command that records how an attempt ended: the end of its task, or its place in the queue. */
export function settle({
  job,
  attempt,
  outcome,
  now,
}: Settle): Extract<JobCommand, { type: 'end' | 'requeue' }> {
  const { jobId, index, attempts } = attempt
  const ref = { jobId, attempt: { jobId, index, attempts }, now }
  const again = job.state === 'running' ? requeueOf(job, attempt, outcome, now) : undefined
  if (again !== undefined) return { type: 'requeue', ...ref, requeue: again }
  return { type: 'end', ...ref, end: endOf(job, outcome) }
}

/** Whether the next task may run in the same sandbox. */
export function isReusableAfter(outcome: AttemptOutcome): boolean {
  if (outcome.kind !== 'ended') return false
  const { timedOut, outOfMemory, contextRestarted } = outcome.result
  return timedOut !== true && outOfMemory === undefined && contextRestarted === undefined
}

/** Undefined: the task has ended. */
function requeueOf(
  { request }: JobRow,
  { failures, losses, refusals }: Attempt,
  outcome: AttemptOutcome,
  now: number,
): Requeue | undefined {
  if (outcome.kind === 'lost' && losses < LOSSES_MAX)
    return { why: 'losses', dueAt: now, reason: 'lost', message: short(outcome.message) }
  if (outcome.kind === 'refused' && isTemporary(outcome.error) && refusals < REFUSALS_MAX) {
    const dueAt = now + Math.min(PAUSE_MAX_MS, REFUSAL_PAUSE_MS * 2 ** Math.min(refusals, 10))
    return { why: 'refusals', dueAt, reason: 'refused', message: messageOf(outcome.error) }
  }
  const failure = failedAs(outcome)
  if (failure === undefined || failures >= request.retry.retries) return undefined
  const dueAt = now + Math.min(BACKOFF_MAX_MS, request.retry.backoffMs * 2 ** failures)
  return { why: 'failures', dueAt, ...failure }
}

function failedAs(outcome: AttemptOutcome): Pick<Requeue, 'reason' | 'message'> | undefined {
  if (outcome.kind === 'timed_out')
    return {
      reason: 'timed_out',
      message: 'The task took longer than its time-out, and its sandbox was deleted.',
    }
  if (outcome.kind === 'lost') return { reason: 'lost', message: short(outcome.message) }
  return outcome.kind === 'ended' ? failureOf(outcome.result) : undefined
}

function endOf({ bytes }: JobRow, outcome: AttemptOutcome): TaskEnd {
  if (outcome.kind === 'stopped') return { state: 'cancelled', reason: 'cancelled' }
  if (outcome.kind === 'refused')
    return { state: 'failed', reason: 'refused', message: messageOf(outcome.error) }
  const failure = failedAs(outcome)
  const result =
    outcome.kind === 'ended'
      ? { result: boundResult(outcome.result, { isShort: bytes >= JOB_RESULTS_MAX_BYTES }) }
      : {}
  return failure === undefined
    ? { state: 'succeeded', ...result }
    : { state: 'failed', ...failure, ...result }
}

/** The host or the key has no room now. */
function isTemporary(error: unknown): boolean {
  return error instanceof DormouseError && error.retry
}

/** Messages of other errors may name paths of the host. */
function messageOf(error: unknown): string {
  return error instanceof DormouseError
    ? short(error.message)
    : 'The sandbox of the task could not be created.'
}
