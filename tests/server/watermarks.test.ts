import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createApp } from '../../packages/server/src/api/app.ts'
import type { App } from '../../packages/server/src/api/route.ts'
import { useHostTime } from './host-time.ts'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

/** More than any host has. */
const ALL_THERE_IS = 2 ** 52
const MINUTE_MS = 60_000

const time = useHostTime()
let host: TestHost
let core: TestCore | undefined
let app: App | undefined
beforeAll(async () => {
  host = await testHost()
})
afterEach(async () => {
  for (const sandbox of [...(core?.sandboxes.all() ?? [])]) await sandbox.delete()
  await app?.close()
  await core?.[Symbol.asyncDispose]()
  app = undefined
  core = undefined
})
afterAll(() => host?.cleanUp())

type Change = Parameters<TestHost['open']>[0]

/** Over HTTP, as a caller sees it. */
async function serve(change: Change) {
  core = await host.open(change)
  const { key } = core.access.create({ name: `key ${Math.random()}`, scopes: ['admin'] })
  const health = { check: () => ({ status: 'ok', version: '0.0.0' }) as const }
  app = await createApp({ ...core.services, health }, { logger: false, checkAnswers: true })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  return (path: string, body: object) =>
    fetch(url + path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    })
}

async function expectRefusal(response: Response, reason: string): Promise<void> {
  expect(response.status).toBe(503)
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await response.json()).toMatchObject({ error: { code: 'overloaded', details: { reason } } })
}

async function freeMemoryBytes(): Promise<number> {
  const [, kib] = /^MemAvailable:\s+(\d+) kB$/m.exec(await readFile('/proc/meminfo', 'latin1')) ?? []
  return Number(kib) * 1024
}

describe('a host that is low', () => {
  test('on disk makes nothing new, says why and when to come back; what exists sleeps and wakes', async () => {
    core = await host.open()
    const { sandbox } = await core.sandboxes.create(wanted({ name: 'old' }), core.caller)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await core[Symbol.asyncDispose]()
    const post = await serve({ minFreeDiskBytes: ALL_THERE_IS })
    await expectRefusal(await post('/v1/sandboxes', {}), 'disk')
    await expectRefusal(await post('/v1/run', { code: '1' }), 'disk')
    await expectRefusal(await post(`/v1/sandboxes/${sandbox.id}/fork`, { count: 1 }), 'disk')
    expect((await post(`/v1/sandboxes/${sandbox.id}/run`, { code: 'print(1)' })).status).toBe(200)
    expect((await post(`/v1/sandboxes/${sandbox.id}/standby`, { tier: 'stored' })).status).toBe(200)
    expect([...(core as TestCore).sandboxes.all()]).toHaveLength(1)
    await (core as TestCore).sandboxes.find(sandbox.id)?.delete()
  })

  test('on memory starts nothing, says why and when to come back, and leaves no half-made sandbox', async () => {
    core = await host.open()
    const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await core[Symbol.asyncDispose]()
    const post = await serve({ minFreeMemoryBytes: ALL_THERE_IS })
    await expectRefusal(await post('/v1/sandboxes', {}), 'memory')
    await expectRefusal(await post(`/v1/sandboxes/${sandbox.id}/fork`, { count: 1 }), 'memory')
    await expectRefusal(await post(`/v1/sandboxes/${sandbox.id}/resume`, {}), 'memory')
    const { sandboxes } = core as TestCore
    expect([...sandboxes.all()].map((one) => one.view())).toMatchObject([
      { state: 'standby', tier: 'stored' },
    ])
    expect(await host.factory.traces()).toEqual([])
    await sandboxes.find(sandbox.id)?.delete()
  })

  test('on memory puts what is frozen on disk, and what falls asleep there at once', async () => {
    // Enough to start something, and less than frozen ones may take up.
    core = await host.open({ minFreeMemoryBytes: Math.round((await freeMemoryBytes()) * 0.8) })
    const create = async (idleTimeoutMs: number) =>
      (
        await (core as TestCore).sandboxes.create(
          wanted({ idleTimeoutMs, storeAfterMs: 3_600_000 }),
          (core as TestCore).caller,
        )
      ).sandbox
    const [frozen, idle] = [await create(0), await create(300)]
    await frozen.standby({ tier: 'frozen', cause: 'asked' })
    await expect.poll(() => frozen.view().tier, { timeout: 20_000 }).toBe('stored')
    expect(frozen.ledger({ limit: 10 }).items.at(-1)).toMatchObject({ event: 'stored', cause: 'memory' })
    await expect.poll(() => idle.view().tier, { timeout: 20_000 }).toBe('stored')
    expect(idle.ledger({ limit: 10 }).items.map(({ event, tier }) => [event, tier])).toEqual([
      ['created', undefined],
      ['slept', 'stored'],
    ])
    for (const sandbox of [frozen, idle]) {
      expect((await sandbox.resume('resume')).state).toBe('running')
      await sandbox.delete()
    }
  })

  test('with memory enough leaves what is frozen where it is', async () => {
    core = await host.open()
    const { sandbox } = await core.sandboxes.create(wanted({ storeAfterMs: 3_600_000 }), core.caller)
    await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    await time.checked()
    expect(sandbox.view().tier).toBe('frozen')
    await sandbox.delete()
  })
})

describe('expiry', () => {
  test.each(['running', 'stored'] as const)(
    'by `at` deletes one that is %s, then and not before',
    async (state) => {
      core = await host.open()
      const { sandboxes, caller } = core
      const { sandbox } = await sandboxes.create(wanted(), caller)
      if (state === 'stored') await sandbox.standby({ tier: 'stored', cause: 'asked' })
      const at = new Date(time.now() + 2 * MINUTE_MS)
      await sandbox.update({ expires: { at: at.toISOString(), action: 'delete' } })
      // Within milliseconds: the answer is the time that is left, added to the time now.
      const { expiresAt = '' } = await sandbox.why()
      expect(Math.abs(Date.parse(expiresAt) - at.getTime())).toBeLessThan(100)
      time.skip(MINUTE_MS)
      await time.checked()
      expect(sandboxes.find(sandbox.id)).toBe(sandbox)
      time.skip(MINUTE_MS)
      await expect.poll(() => sandboxes.find(sandbox.id), { timeout: 30_000 }).toBeUndefined()
      expect(() => sandboxes.get(sandbox.id, caller)).toThrow(expect.objectContaining({ code: 'not_found' }))
      expect(await host.factory.traces()).toEqual([])
      expect(sandboxes.deps.snapshots.ids().size).toBe(0)
    },
  )
})
