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
  journal = new RunJournal(db)
  sandboxId = newSandboxId()
})
afterEach(async () => {
  await db[Symbol.asyncDispose]()
  rmSync(dir, { recursive: true })
})

const request = { code: 'print(1)', language: 'python', timeoutMs: 5 } as const
const add = (more: object = {}) =>
  journal.add({
    ...{ sandboxId, runId: newRunId(), context: 'default', language: 'python', startedAt: 1 },
    ...{ idempotencyKey: undefined, requestHash: undefined, kept: keptCode('print(1)') },
    ...more,
  })

test('a request is kept until the run is handed over, and found by the next server until then', () => {
  const { id, runId } = add({ request })
  expect(journal.queued()).toMatchObject([{ runId, isUnsent: true }])
  expect(journal.requestOf(id)).toEqual(request)
  journal.dropRequest(id)
  expect(journal.queued()).toMatchObject([{ runId, isUnsent: false }])
  expect(journal.requestOf(id)).toBeUndefined()
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
