import { DormouseError, newJobId, newSandboxId } from '@dormouse/contracts'
import { createJobSchema, type TaskResultAnswer } from '@dormouse/contracts/http'
import { expect, test } from 'vitest'
import type { JobRow } from './job-rows.ts'
import { JOB_RESULTS_MAX_BYTES, LOSSES_MAX } from './limits.ts'
import type { AttemptOutcome } from './run-attempt.ts'
import { settle } from './settle-attempt.ts'
import type { Attempt, Requeue, TaskEnd } from './task-rows.ts'

const [retries, backoffMs] = [2, 100]
const retry = { retries, backoffMs }
const { inputs: _, ...request } = createJobSchema.parse({
  ...{ code: '1', inputs: [1], retry },
})
const job = { id: newJobId(), state: 'running', request, bytes: 0 } as unknown as JobRow
const attempt: Attempt = {
  ...{ jobId: job.id, index: 0, state: 'running', input: '1', attempts: 1 },
  ...{ failures: 0, losses: 0, refusals: 0, sandboxId: newSandboxId() },
}
const run: TaskResultAnswer = {
  ...{ runId: 'run-2222222222222222', stdout: '', stderr: '', exitCode: 0, results: [], durationMs: 1 },
}

function settled(outcome: AttemptOutcome, change: Partial<Attempt> = {}, row: Partial<JobRow> = {}) {
  const command = settle({ job: { ...job, ...row }, attempt: { ...attempt, ...change }, outcome, now: 1_000 })
  const written: { end?: TaskEnd; requeue?: Requeue } = command
  return written
}

const failed: AttemptOutcome = { kind: 'ended', result: { ...run, exitCode: 1 } }

test('a failure is repeated with a growing pause, until the retries are used up', () => {
  expect(settled(failed).requeue).toMatchObject({ why: 'failures', dueAt: 1_100 })
  expect(settled(failed, { failures: 1 }).requeue).toMatchObject({ dueAt: 1_200 })
  expect(settled(failed, { failures: 2 }).end).toMatchObject({ state: 'failed', reason: 'failed' })
})

test('a lost attempt is repeated without counting as a failure, but not for ever', () => {
  const lost: AttemptOutcome = { kind: 'lost', message: 'gone' }
  expect(settled(lost, { failures: 2 }).requeue).toMatchObject({ why: 'losses' })
  expect(settled(lost, { failures: 2, losses: LOSSES_MAX }).end).toMatchObject({ reason: 'lost' })
})

test('a host without room is asked again, and what can never begin fails at once', () => {
  const refused = (code: 'overloaded' | 'template_not_found'): AttemptOutcome => ({
    ...{ kind: 'refused', error: new DormouseError(code, 'no') },
  })
  expect(settled(refused('overloaded')).requeue).toMatchObject({ why: 'refusals' })
  expect(settled(refused('template_not_found')).end).toMatchObject({ state: 'failed', reason: 'refused' })
  expect(settled({ kind: 'refused', error: new Error('/secret/path') }).end?.message).not.toContain('secret')
})

test('nothing is repeated in a job that is being cancelled', () => {
  expect(settled(failed, {}, { state: 'cancelling' }).end).toMatchObject({ state: 'failed' })
  expect(settled({ kind: 'stopped' }, {}, { state: 'cancelling' }).end).toMatchObject({ state: 'cancelled' })
})

test('a result is cut, and shorter when the job has many bytes of results', () => {
  const large: AttemptOutcome = {
    kind: 'ended',
    result: {
      ...{ ...run, stdout: 'x'.repeat(10 ** 6), text: 'y'.repeat(10 ** 6), mainResult: 1 },
      results: [{ 'text/plain': 'a' }, { 'text/plain': 'y'.repeat(10 ** 6) }],
    },
  }
  const size = (row: Partial<JobRow>) => JSON.stringify(settled(large, {}, row).end?.result).length
  expect(size({})).toBeLessThan(300_000)
  expect(size({ bytes: JOB_RESULTS_MAX_BYTES })).toBeLessThan(10_000)
  expect(settled(large).end?.result).toMatchObject({
    results: [{ 'text/plain': 'a' }],
    truncated: { resultBytes: expect.any(Number) },
  })
  expect(settled(large).end?.result).not.toHaveProperty('mainResult')
})
