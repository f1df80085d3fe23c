import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { powerCut } from './power-cut.ts'
import { type Fault, ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterAll(() => server?.cleanUp())
afterEach(() => server.clear())

const at = '/v1/sandboxes/one'
const ADD_ONE = { code: 'n += 1\nprint(n)', idempotencyKey: 'once' }
/** A caller that hangs fails the test, and not the suite. */
const patience = () => ({ signal: AbortSignal.timeout(60_000) })

async function createStored(): Promise<void> {
  await server.ok('/v1/sandboxes', { json: { name: 'one', idleTimeoutMs: 0 } })
  await server.run('one', 'n = 0')
  await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
}

/** Sends `json` as a run to a server that is killed at the moment that `until` waits for. */
async function killDuringRun(json: object, until: () => Promise<unknown>): Promise<void> {
  const sent = server.call(`${at}/run`, { json, ...patience() }).catch(() => 'cut off')
  await until()
  await server.kill()
  await sent
}

async function killAtFault(fault: Fault): Promise<void> {
  await server.kill()
  await server.begin([fault])
  await killDuringRun(ADD_ONE, () => server.struck())
}

const newestRun = async () => (await server.ok(`${at}/runs?limit=1`)).items[0]

describe('kill -9 of the server while a run waits for its sandbox to wake', () => {
  test.each(['before', 'after'] as const)(
    '%s the restore: the next server wakes the sandbox and starts the run, once',
    async (when) => {
      await createStored()
      await killAtFault({ method: 'restore', when, does: 'hang' })
      await server.begin()
      await expect.poll(newestRun, { timeout: 60_000 }).toMatchObject({ state: 'finished', exitCode: 0 })
      const again = await server.ok(`${at}/run`, { json: ADD_ONE, ...patience() })
      expect(again).toMatchObject({ runId: (await newestRun()).runId, stdout: '1\n' })
      expect(await server.run('one', 'print(n)')).toBe('1\n')
    },
  )

  test('at any moment: the request sent again is answered, and nothing runs twice', async () => {
    await createStored()
    for (const [round, delayMs] of [9, 25, 40, 56].entries()) {
      const json = { ...ADD_ONE, idempotencyKey: `round-${round}` }
      const before = Number(await server.run('one', 'print(n)'))
      await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
      await killDuringRun(json, () => sleep(delayMs))
      await server.begin()
      const again = await server.ok(`${at}/run`, { json, ...patience() })
      const isLost = again.error?.name === 'RunLost'
      expect(again.stdout).toBe(isLost ? '' : `${before + 1}\n`)
      const after = Number(await server.run('one', 'print(n)'))
      expect([before + 1, ...(isLost ? [before] : [])]).toContain(after)
    }
  }, 120_000)

  test('a run that cannot be started says why, and its caller gets an answer', async () => {
    await server.ok('/v1/sandboxes', { json: { name: 'one', idleTimeoutMs: 0 } })
    await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
    await killAtFault({ method: 'restore', when: 'before', does: 'hang' })
    // Reaches only the wake of the run: nothing else restores this sandbox.
    await server.begin([{ method: 'restore', when: 'before', does: 'fail' }])
    await expect.poll(newestRun, { timeout: 60_000 }).toMatchObject({ state: 'lost' })
    const again = await server.ok(`${at}/run`, { json: ADD_ONE, ...patience() })
    expect(again.error).toMatchObject({
      name: 'RunLost',
      message: expect.stringContaining('was never started'),
    })
  })
})

test('kill -9 of the server while a run waits behind another: both end by themselves, each done once', async () => {
  await server.ok('/v1/sandboxes', { json: { name: 'one', idleTimeoutMs: 0 } })
  await server.run('one', 'n = 0')
  const slow = { code: 'import time\ntime.sleep(2)\nn += 10', idempotencyKey: 'slow' }
  const cut = [slow, ADD_ONE].map((json) => server.call(`${at}/run`, { json }).catch(() => 'cut off'))
  await expect.poll(async () => (await server.ok(`${at}/runs`)).items.length).toBe(3)
  await expect.poll(async () => (await server.ok(`${at}/runs`)).items[1].state).toBe('running')
  await server.kill()
  await Promise.all(cut)
  await server.begin()
  await expect.poll(newestRun, { timeout: 30_000 }).toMatchObject({ state: 'finished' })
  expect(await server.run('one', 'print(n)')).toBe('11\n')
})

test('a host that goes down ends runs that were under way as lost, without a wake', async () => {
  await server.ok('/v1/sandboxes', { json: { name: 'one', idleTimeoutMs: 0 } })
  const json = { code: 'import time\ntime.sleep(600)', idempotencyKey: 'long' }
  const cut = server.call(`${at}/run`, { json }).catch(() => 'cut off')
  await expect.poll(newestRun).toMatchObject({ state: 'running' })
  await server.kill()
  await cut
  await powerCut(server.factory)
  await server.begin()
  expect(await newestRun()).toMatchObject({ state: 'lost' })
  const again = await server.ok(`${at}/run`, { json, ...patience() })
  expect(again).toMatchObject({ exitCode: -1, error: { name: 'RunLost' } })
  expect(await server.ok(at)).toMatchObject({ state: 'standby' })
})
