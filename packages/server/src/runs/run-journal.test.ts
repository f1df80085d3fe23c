import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newRunId, newSandboxId, type SandboxId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openSharedDatabase, type SharedDatabase } from '../store/database.ts'
import { journalMigrations } from '../store/migrations/index.ts'
import { entryOf } from './bound-event.ts'
import { keptCode } from './kept-code.ts'
import { RunJournal } from './run-journal.ts'

let dir: string
let db: SharedDatabase
let journal: RunJournal
let sandboxId: SandboxId

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'dormouse-journal-'))
  db = openSharedDatabase({
    path: join(dir, 'journal.db'),
    migrations: journalMigrations,
    synchronous: 'NORMAL',
  })
  journal = new RunJournal(db, { logPath: join(dir, 'journal.log'), hasRoom: () => true })
  sandboxId = newSandboxId()
})
afterEach(async () => {
  journal[Symbol.dispose]()
  await db[Symbol.asyncDispose]()
  rmSync(dir, { recursive: true })
})

const request = { code: 'print(1)', language: 'python', timeoutMs: 5 } as const
const newRun = () => ({
  ...({ sandboxId, runId: newRunId(), context: 'default', language: 'python', startedAt: 1 } as const),
  ...{ idempotencyKey: undefined, requestHash: undefined, kept: keptCode('print(1)') },
})
const add = (more: object = {}) => journal.add({ ...newRun(), ...more })

test('a request is kept until the run is handed over, and found by the next server until then', () => {
  const { id, runId } = add({ request })
  expect(journal.queued()).toMatchObject([{ runId, isUnsent: true }])
  expect(journal.requestOf(id)).toEqual(request)
  journal.dropRequest(id)
  expect(journal.queued()).toMatchObject([{ runId, isUnsent: false }])
  expect(journal.requestOf(id)).toBeUndefined()
})

test('a run that was just written is found, and so it is by the next server after kill -9', () => {
  const { id, runId } = add({ idempotencyKey: 'once', requestHash: 'x' })
  const exit = entryOf({ seq: 0, type: 'exit', exitCode: 3, durationMs: 0 })
  journal.append({ run: id, entries: [exit], now: 2, isLost: false })
  expect(journal.byKey(sandboxId, 'once')).toMatchObject({ runId, requestHash: 'x' })
  // Reads nothing before: that would move the log into the database.
  using next = new RunJournal(db, { logPath: join(dir, 'journal.log'), hasRoom: () => true })
  expect(next.get(sandboxId, runId)).toMatchObject({ id, state: 'finished', exitCode: 3 })
  expect(next.page(id, -1).events).toEqual([exit.event])
  expect(journal.get(sandboxId, runId)).toMatchObject({ state: 'finished' })
  // Nothing is written twice, and the ids go on.
  expect(next.list(sandboxId, { limit: 10 }).items).toHaveLength(1)
  expect(next.add({ ...newRun(), idempotencyKey: undefined }).id).toBe(id + 1)
})

test('events of a run that is gone keep no other from being written', () => {
  const gone = add()
  journal.forget(gone.id)
  const kept = add()
  const exit = entryOf({ seq: 0, type: 'exit', exitCode: 0, durationMs: 0 })
  journal.append({ run: gone.id, entries: [exit], now: 2, isLost: false })
  journal.append({ run: kept.id, entries: [exit], now: 2, isLost: false })
  expect(journal.get(sandboxId, kept.runId)).toMatchObject({ state: 'finished' })
})

test('what waits for a run whose id another one has meanwhile is left out with its events', () => {
  const mine = add()
  const exit = entryOf({ seq: 0, type: 'exit', exitCode: 3, durationMs: 0 })
  journal.append({ run: mine.id, entries: [exit], now: 2, isLost: false })
  // As an older version does, which does not know the log.
  db.exec(`INSERT INTO runs (id, sandbox_id, run_id, context, language, state, started_at)
    VALUES (${mine.id}, '${sandboxId}', 'run-other', 'default', 'python', 'running', 1)`)
  expect(journal.get(sandboxId, 'run-other')).toMatchObject({ state: 'running', exitCode: undefined })
  expect(journal.get(sandboxId, mine.runId)).toBeUndefined()
})

test('runs that have begun or ended are not queued, and have no request', () => {
  const [begun, lost] = [add({ request }), add({ request })]
  journal.dropRequest(begun.id)
  const output = entryOf({ seq: 0, type: 'stdout', data: 'x' })
  journal.append({ run: begun.id, entries: [output], now: 2, isLost: false })
  const exit = entryOf({ seq: 0, type: 'exit', exitCode: -1, durationMs: 0 })
  journal.append({ run: lost.id, entries: [exit], now: 2, isLost: true })
  expect(journal.queued()).toEqual([])
  expect(journal.requestOf(lost.id)).toBeUndefined()
})

test('a fork takes along the runs that its parent has, and none that it was never given', () => {
  const [given] = [add(), add({ request })]
  const child = newSandboxId()
  journal.copyOpen(sandboxId, child)
  expect(journal.open(child)).toMatchObject([{ runId: given?.runId, sandboxId: child }])
})
