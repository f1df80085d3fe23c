import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type JobId, newJobId, newSandboxId } from '@dormouse/contracts'
import { createJobSchema, type TaskResultAnswer } from '@dormouse/contracts/http'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Database, openDatabase } from '../store/database.ts'
import { jobMigrations } from '../store/migrations/index.ts'
import { JobRows } from './job-rows.ts'
import { type Attempt, NO_WORKER, TaskRows } from './task-rows.ts'

let directory: string
let db: Database
let jobs: JobRows
let tasks: TaskRows
let id: JobId
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-jobs-'))
  db = openDatabase({ path: join(directory, 'jobs.db'), migrations: jobMigrations, synchronous: 'FULL' })
  jobs = new JobRows(db)
  tasks = new TaskRows(db)
  id = newJobId()
  const { inputs, ...request } = createJobSchema.parse({ code: '1', inputs: [1, 2, 3] })
  const texts = inputs.map((input) => JSON.stringify(input))
  const key = { idempotencyKey: undefined, requestHash: undefined }
  jobs.add({ id, owner: 'a', request, inputs: texts, createdAt: 1, ...key }, NO_WORKER)
  jobs.start(id, undefined)
})
afterEach(() => {
  db.close()
  rmSync(directory, { recursive: true })
})

const result = {
  runId: 'run-2222222222222222',
  stdout: 'x',
  stderr: '',
  exitCode: 0,
  results: [],
  durationMs: 1,
}

function claim(): Attempt {
  const task = tasks.next(id, 10)
  if (task === undefined) throw new Error('no task is due')
  return tasks.claim(task, { sandboxId: newSandboxId(), now: 10, by: NO_WORKER, isHere: true })
}

const end = (attempt: Attempt, stdout: string) =>
  tasks.end(attempt, { state: 'succeeded', result: { ...result, stdout } as TaskResultAnswer }, 20)

test('only the first end of an attempt is recorded', () => {
  const attempt = claim()
  expect([end(attempt, 'first'), end(attempt, 'second')]).toEqual([true, false])
  expect(tasks.get(id, 0)).toMatchObject({ state: 'succeeded', result: { stdout: 'first' } })
  expect(jobs.get(id)).toMatchObject({ succeeded: 1, lastSeq: 1 })
})

test('an attempt that was replaced records nothing, neither an end nor a place in the queue', () => {
  const old = claim()
  const again = { why: 'losses', dueAt: 0, reason: 'lost', message: 'gone' } as const
  expect(tasks.requeue(old, again)).toBe(true)
  const current = claim()
  expect([current.index, current.attempts]).toEqual([0, 2])
  expect([end(old, 'old'), tasks.requeue(old, again)]).toEqual([false, false])
  expect(end(current, 'new')).toBe(true)
  expect(tasks.get(id, 0)).toMatchObject({ attempts: 2, result: { stdout: 'new' } })
})

test('an attempt cannot record the end of another task', () => {
  const [first, second] = [claim(), claim()]
  end({ ...first, index: 2 }, 'forged')
  expect(tasks.get(id, 2)).toMatchObject({ state: 'queued' })
  end(second, 'second')
  expect(tasks.get(id, 0)).toMatchObject({ state: 'running' })
})

test('a task is not due before its pause is over', () => {
  for (const attempt of [claim(), claim(), claim()])
    tasks.requeue(attempt, { why: 'failures', dueAt: 50 - attempt.index, reason: 'failed', message: '' })
  expect([tasks.next(id, 47), tasks.nextDueAt(id)]).toEqual([undefined, 48])
  expect(tasks.next(id, 48)?.index).toBe(2)
})

test('cancelling ends waiting tasks, each with an event of its own, and leaves the running one', () => {
  const attempt = claim()
  jobs.cancel(id, 30)
  expect(jobs.get(id)).toMatchObject({ state: 'cancelling', cancelled: 2, lastSeq: 2 })
  tasks.end(attempt, { state: 'cancelled', reason: 'cancelled' }, 40)
  jobs.end(id, 50)
  const seen = tasks
    .ended(id, { after: 0, limit: 10, results: true })
    .map(({ seq, task }) => [seq, task.index])
  expect(seen).toEqual([
    [1, 1],
    [2, 2],
    [3, 0],
  ])
  expect(jobs.get(id)).toMatchObject({ state: 'cancelled', cancelled: 3, finishedAt: 50 })
})
