import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { createScheduleSchema } from '@dormouse/contracts/http'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FakeClock } from '../clock/testing/fake-clock.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { jobMigrations } from '../store/migrations/index.ts'
import { ScheduleRows } from './schedule-rows.ts'
import { type ScheduleDependencies, ScheduleService } from './schedule-service.ts'

const HOUR_MS = 3_600_000
const caller = { keyId: 'a', isAdmin: false }
const log = { info() {}, warn() {}, error() {}, debug() {} } as unknown as ScheduleDependencies['log']

let directory: string
let db: Database
let clock: FakeClock
/** The keys that jobs were created with. A key that comes again creates nothing, as with real jobs. */
let jobs: string[]
let failure: Error | undefined
let service: ScheduleService
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-schedules-'))
  clock = new FakeClock(Date.UTC(2026, 0, 1, 0, 30))
  jobs = []
  failure = undefined
  start()
})
afterEach(() => {
  service.stop()
  db.close()
  rmSync(directory, { recursive: true })
})

function start(): void {
  db = openDatabase({ path: join(directory, 'jobs.db'), migrations: jobMigrations, synchronous: 'FULL' })
  service = new ScheduleService({
    ...{ rows: new ScheduleRows(db), clock, log, findKey: () => ({}) },
    sandboxes: { get: () => expect.unreachable() },
    runs: { start: () => expect.unreachable() },
    jobs: {
      create: async ({ idempotencyKey = '' }) => {
        if (failure !== undefined) throw failure
        if (!jobs.includes(idempotencyKey)) jobs.push(idempotencyKey)
        return { job: { id: 'job-2222222222222222' } as never, isNew: true }
      },
    },
  })
  service.open()
}

/** As after `kill -9`: nothing is finished or closed in order. */
function restart(downMs: number): void {
  service.stop()
  db.close()
  clock.pass(downMs)
  start()
}

function create(change: object = {}) {
  const action = { type: 'job', job: { code: '1', inputs: [1] } }
  const given = { name: 'hourly', cron: '0 * * * *', action, ...change }
  return service.create(createScheduleSchema.parse(given), caller)
}

const fired = () => jobs.map((key) => new Date(Number(key.split('-').at(-1))).toISOString().slice(11, 16))

async function look(passMs = 0): Promise<void> {
  clock.pass(passMs)
  service.look()
  await expect
    .poll(() => service.firings('hourly', caller).every(({ state }) => state !== 'pending'))
    .toBe(true)
}

test('each time fires once, however often it is looked at', async () => {
  expect(create().nextAt).toBe('2026-01-01T01:00:00.000Z')
  await look(29 * 60_000)
  expect(fired()).toEqual([])
  await look(60_000)
  await look(1_000)
  await look(HOUR_MS)
  expect(fired()).toEqual(['01:00', '02:00'])
  expect(service.get('hourly', caller)).toMatchObject({
    ...{ nextAt: '2026-01-01T03:00:00.000Z' },
    last: { state: 'done', jobId: 'job-2222222222222222' },
  })
})

test('times that passed while no server ran are skipped, or the latest fires once', async () => {
  create({ name: 'hourly' })
  create({ name: 'once', missed: 'once' })
  restart(5 * HOUR_MS)
  await look()
  expect(fired()).toEqual(['05:00'])
  restart(0)
  await look()
  expect(fired()).toEqual(['05:00'])
})

test('a firing that a killed server had recorded, but not done, is done once by the next', async () => {
  create()
  failure = new DormouseError('overloaded', 'later')
  clock.pass(30 * 60_000)
  service.look()
  expect(service.firings('hourly', caller)).toMatchObject([{ state: 'pending' }])
  failure = undefined
  restart(10_000)
  await look()
  restart(10_000)
  await look()
  expect(fired()).toEqual(['01:00'])
})

test('a clock that is set back fires no time twice, and one that was far ahead does not stop a schedule', async () => {
  create()
  await look(30 * 60_000)
  clock.wall -= 10 * 60_000
  await look()
  await look(10 * 60_000)
  expect(fired()).toEqual(['01:00'])
  clock.wall += 1000.3 * HOUR_MS
  await look(1_000)
  clock.wall -= 1000.3 * HOUR_MS
  await look(1_000)
  await look(HOUR_MS)
  expect(fired()).toEqual(['01:00', '02:00'])
})

test('what fails says why, and a schedule that is off fires nothing and misses nothing', async () => {
  create({ missed: 'once' })
  failure = new DormouseError('not_found', 'There is no sandbox x.')
  await look(30 * 60_000)
  expect(service.firings('hourly', caller)).toMatchObject([
    { state: 'failed', error: 'There is no sandbox x.' },
  ])
  failure = undefined
  service.update('hourly', { enabled: false }, caller)
  await look(3 * HOUR_MS)
  service.update('hourly', { enabled: true }, caller)
  await look()
  expect(fired()).toEqual([])
  await look(HOUR_MS)
  expect(fired()).toEqual(['05:00'])
})

test('schedules of other keys are not found', () => {
  create()
  expect(() => service.get('hourly', { keyId: 'b', isAdmin: false })).toThrow(
    expect.objectContaining({ code: 'not_found' }),
  )
  expect(() => create()).toThrow(expect.objectContaining({ code: 'name_taken' }))
})
