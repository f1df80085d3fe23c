import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { Sandbox } from '../../packages/server/src/sandbox/sandbox.ts'
import type { CreateSandbox } from '../../packages/server/src/store/sandbox-rows.ts'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

let host: TestHost
let core: TestCore
/** By how much the wall clock of the host was set. */
let setByMs = 0
const realNow = Date.now

beforeAll(async () => {
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + setByMs)
  host = await testHost()
})
afterAll(async () => {
  await host?.cleanUp()
  vi.restoreAllMocks()
})
beforeEach(async () => {
  setByMs = 0
  core = await host.open()
})
afterEach(async () => {
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
  await core[Symbol.asyncDispose]()
})

const create = async (change: Partial<CreateSandbox>) =>
  (await core.services.sandboxes.create(wanted(change), core.caller)).sandbox
const idOf = ({ id }: Sandbox): string => id
const present = () => [...core.sandboxes.all()].map(({ id }) => id as string).sort()

/** The watch has looked at all sandboxes since this was called: it has put one to sleep, and to disk, in its time. */
async function watchHasLooked(): Promise<void> {
  const sandbox = await create({ idleTimeoutMs: 500, storeAfterMs: 500 })
  await expect.poll(() => sandbox.view()).toMatchObject({ state: 'standby', tier: 'stored' })
  await sandbox.delete()
}

const expiring = () =>
  Promise.all([
    create({ expires: { afterMs: 12 * HOUR_MS } }),
    create({ expires: { idleMs: 12 * HOUR_MS } }),
    create({ expires: { at: new Date(Date.now() + 12 * HOUR_MS).toISOString() } }),
  ])

test('a clock that is set back a day does not keep sandboxes awake, nor in memory', async () => {
  const sandbox = await create({ idleTimeoutMs: 1_500, storeAfterMs: 500 })
  setByMs = -DAY_MS
  await expect.poll(() => sandbox.view()).toMatchObject({ state: 'standby', tier: 'stored' })
  const { latencyMs } = sandbox.ledger({ limit: 100 }).items.find(({ event }) => event === 'slept') ?? {}
  expect(latencyMs).toBeGreaterThan(0)
})

test('a clock that is set forward a day deletes nothing', async () => {
  const all = await expiring()
  setByMs = DAY_MS
  await watchHasLooked()
  expect(present()).toEqual(all.map(idOf).sort())
})

test('a clock that is ten days ahead at the start of the server deletes nothing', async () => {
  const all = await expiring()
  setByMs = 10 * DAY_MS
  core = await core.restart()
  await watchHasLooked()
  expect(present()).toEqual(all.map(idOf).sort())
})

test('what expires does so in its time, also when the clock is set back meanwhile', async () => {
  await Promise.all([
    create({ expires: { afterMs: 3_000 } }),
    create({ expires: { idleMs: 3_000 } }),
    create({ idleTimeoutMs: 1_000, expires: { idleMs: 3_000 }, ephemeral: true }),
  ])
  setByMs = -DAY_MS
  await expect.poll(present).toEqual([])
})
