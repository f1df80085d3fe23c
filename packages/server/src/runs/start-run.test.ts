import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, type RunEvent } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { RunToFollow } from '../sandbox/attach-run.ts'
import { openSharedDatabase, type SharedDatabase } from '../store/database.ts'
import { journalMigrations } from '../store/migrations/index.ts'
import { LiveRuns } from './live-runs.ts'
import { RunJournal } from './run-journal.ts'
import { startRun } from './start-run.ts'

let dir: string
let db: SharedDatabase
let journal: RunJournal
let runs: LiveRuns

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'dormouse-start-run-'))
  const path = join(dir, 'journal.db')
  db = openSharedDatabase({ path, migrations: journalMigrations, synchronous: 'NORMAL' })
  journal = new RunJournal(db, { logPath: join(dir, 'journal.log'), hasRoom: () => true })
  const space = { charge() {}, ended() {}, grant: () => true, tailBytes: () => 1_000 }
  const log = { info() {}, warn() {}, error() {} }
  const clock = { wallMs: () => 1 }
  runs = new LiveRuns({ journal, space: space as never, findSandbox: () => undefined, clock, log })
})
afterEach(async () => {
  runs[Symbol.dispose]()
  journal[Symbol.dispose]()
  await db[Symbol.asyncDispose]()
  rmSync(dir, { recursive: true })
})

/** A frozen sandbox. `sent`: whether the rows had requests when they were sent. */
function frozenSandbox(thaw: () => Promise<void>) {
  const id = newSandboxId()
  const sent: boolean[] = []
  let isFrozen = true
  const wake = async () => {
    await thaw()
    isFrozen = false
  }
  const thawNow = () => (isFrozen ? wake() : undefined)
  async function* attachRun({ runId }: RunToFollow): AsyncGenerator<RunEvent | { type: 'sending' }> {
    sent.push(journal.get(id, runId)?.isUnsent === true)
    yield { type: 'sending' }
    yield { type: 'start', seq: 0, runId, context: 'default' }
    yield { type: 'exit', seq: 1, exitCode: 0, durationMs: 1 }
  }
  const runningBurrow = () => (isFrozen ? undefined : ({} as Burrow))
  return { sent, sandbox: { id, thawNow, attachRun, runningBurrow } }
}

const request = { code: 'print(1)', idempotencyKey: 'once' }

test('a frozen sandbox is awake before its run is on record, which then keeps no request', async () => {
  const { sandbox, sent } = frozenSandbox(async () => expect(journal.queued()).toEqual([]))
  const { row } = await startRun(runs, sandbox, request)
  expect(sent).toEqual([false])
  expect(journal.get(sandbox.id, row.runId)).toMatchObject({ state: 'finished' })
})

test('the same request twice while the sandbox wakes is one run', async () => {
  const { sandbox, sent } = frozenSandbox(() => new Promise((resolve) => setTimeout(resolve, 5)))
  const both = await Promise.all([startRun(runs, sandbox, request), startRun(runs, sandbox, request)])
  expect(both[0].row.runId).toBe(both[1].row.runId)
  expect(sent).toHaveLength(1)
})

test('a frozen sandbox that cannot wake leaves no run', async () => {
  const { sandbox } = frozenSandbox(() => Promise.reject(new Error('no room')))
  await expect(startRun(runs, sandbox, request)).rejects.toThrow('no room')
  expect(journal.sandboxIds()).toEqual([])
})

test('a request that was answered before does not wake the sandbox again', async () => {
  const { sandbox, sent } = frozenSandbox(async () => {})
  await startRun(runs, sandbox, request)
  const asleep = { ...sandbox, thawNow: () => Promise.reject(new Error('asked to wake')) }
  await startRun(runs, asleep, request)
  expect(sent).toHaveLength(1)
})
