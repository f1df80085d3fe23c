import { availableParallelism, totalmem } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3

let server: ServerProcess
let key = ''
let keyId = ''
beforeAll(async () => {
  server = await ServerProcess.start()
  ;({ key, id: keyId } = await server.ok('/v1/keys', { json: { name: 'tenant' } }))
})
afterAll(() => server?.cleanUp())

const small = { idleTimeoutMs: 0, limits: { memoryBytes: 256 * MIB } }
const call = (path: string, options: object = {}) => server.call(path, { key, ...options })
const ok = (path: string, options: object = {}) => server.ok(path, { key, ...options })
const create = (more: object = {}) => call('/v1/sandboxes', { json: { ...small, ...more } })

/** Nothing is left but these sandboxes, in rows and on the host. */
async function only(ids: readonly string[], running: number): Promise<void> {
  const { items } = await ok('/v1/sandboxes')
  expect(items.map(({ id }: { id: string }) => id).sort()).toEqual([...ids].sort())
  const burrows = (await server.factory.traces()).filter((trace) =>
    trace.startsWith(server.factory.layout.burrowsDir),
  )
  expect(burrows.length).toBe(running)
}

async function withQuotas(quotas: object, work: () => Promise<void>): Promise<void> {
  await server.ok(`/v1/keys/${keyId}`, { method: 'PATCH', json: { quotas } })
  try {
    await work()
  } finally {
    for (const { id } of (await ok('/v1/sandboxes')).items)
      await ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
    const none = { sandboxes: null, running: null, memoryBytes: null, diskBytes: null }
    await server.ok(`/v1/keys/${keyId}`, { method: 'PATCH', json: { quotas: none } })
  }
}

function expectRefusal({ status, body }: { status: number; body: unknown }, quota: string): void {
  expect(body).toMatchObject({ error: { code: 'limit_reached', details: { quota } } })
  expect(status).toBe(429)
}

describe('quotas of a key', () => {
  test('sandboxes: on create, fork and one-shot runs, also when asleep, and room comes with a deletion', async () => {
    await withQuotas({ sandboxes: 2 }, async () => {
      const { id } = (await create()).body
      const second = (await create()).body.id
      expectRefusal(await create(), 'sandboxes')
      await ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
      expectRefusal(await create({ name: 'x', getOrCreate: true }), 'sandboxes')
      expectRefusal(await call(`/v1/sandboxes/${second}/fork`, { json: { count: 1 } }), 'sandboxes')
      expectRefusal(await call('/v1/run', { json: { code: '1' } }), 'sandboxes')
      await only([id, second], 1)
      await ok(`/v1/sandboxes/${second}`, { method: 'DELETE' })
      // All of a fork or none of it.
      expectRefusal(await call(`/v1/sandboxes/${id}/fork`, { json: { count: 2 } }), 'sandboxes')
      await only([id], 0)
      expect((await call(`/v1/sandboxes/${id}/fork`, { json: { count: 1 } })).status).toBe(201)
    })
  })

  test('running: on create, fork and every kind of wake; frozen and stored ones do not count', async () => {
    await withQuotas({ running: 1 }, async () => {
      const a = (await create()).body.id
      expectRefusal(await create(), 'running')
      expectRefusal(await call(`/v1/sandboxes/${a}/fork`, { json: {} }), 'running')
      await ok(`/v1/sandboxes/${a}/standby`, { json: { tier: 'frozen' } })
      const b = (await create()).body.id
      for (const tier of ['frozen', 'stored']) {
        await ok(`/v1/sandboxes/${a}/standby`, { json: { tier } })
        expectRefusal(await call(`/v1/sandboxes/${a}/resume`, { json: {} }), 'running')
        expectRefusal(await call(`/v1/sandboxes/${a}/run`, { json: { code: '1' } }), 'running')
        expectRefusal(await call(`/v1/sandboxes/${a}/files?path=/etc/hostname`), 'running')
        expect(await ok(`/v1/sandboxes/${a}`)).toMatchObject({ state: 'standby', tier })
      }
      expect((await ok(`/v1/sandboxes/${a}/runs`)).items).toEqual([])
      await ok(`/v1/sandboxes/${b}/standby`, { json: { tier: 'stored' } })
      expect((await call(`/v1/sandboxes/${a}/resume`, { json: {} })).status).toBe(200)
      await only([a, b], 1)
    })
  })

  test('memory: the limits of what runs, on create, fork, wake and a higher limit', async () => {
    await withQuotas({ memoryBytes: 600 * MIB }, async () => {
      const a = (await create()).body.id
      expectRefusal(await create({ limits: { memoryBytes: 400 * MIB } }), 'memoryBytes')
      expectRefusal(await call(`/v1/sandboxes/${a}/fork`, { json: { count: 2 } }), 'memoryBytes')
      expectRefusal(
        await call(`/v1/sandboxes/${a}`, { method: 'PATCH', json: { limits: { memoryBytes: 700 * MIB } } }),
        'memoryBytes',
      )
      expect((await ok(`/v1/sandboxes/${a}`)).limits.memoryBytes).toBe(256 * MIB)
      await ok(`/v1/sandboxes/${a}/standby`, { json: { tier: 'stored' } })
      const b = (await create({ limits: { memoryBytes: 500 * MIB } })).body.id
      expectRefusal(await call(`/v1/sandboxes/${a}/resume`, { json: {} }), 'memoryBytes')
      await only([a, b], 1)
    })
  })

  test('memory: a sandbox that names no limit gets a quarter of the quota or 1 GiB, and counts in full', async () => {
    await withQuotas({ memoryBytes: 2.5 * GIB }, async () => {
      const create = () => call('/v1/sandboxes', { json: { idleTimeoutMs: 0 } })
      expect([(await create()).body, (await create()).body]).toMatchObject(
        Array(2).fill({ limits: { memoryBytes: GIB } }),
      )
      expectRefusal(await create(), 'memoryBytes')
    })
    await withQuotas({ memoryBytes: 600 * MIB }, async () => {
      const { body } = await call('/v1/sandboxes', { json: {} })
      expect(body.limits.memoryBytes).toBe(600 * MIB)
    })
  })

  test('disk: what is over it is made no more, what exists can sleep and wake', async () => {
    await withQuotas({}, async () => {
      const a = (await create()).body.id
      await ok(`/v1/sandboxes/${a}/run`, { json: { code: 'x = 5' } })
      await ok(`/v1/sandboxes/${a}/standby`, { json: { tier: 'stored' } })
      await server.ok(`/v1/keys/${keyId}`, { method: 'PATCH', json: { quotas: { diskBytes: 1 } } })
      expectRefusal(await create(), 'diskBytes')
      expectRefusal(await call(`/v1/sandboxes/${a}/fork`, { json: {} }), 'diskBytes')
      expect((await ok(`/v1/sandboxes/${a}/run`, { json: { code: 'print(x)' } })).stdout).toBe('5\n')
      expectRefusal(await call(`/v1/sandboxes/${a}/snapshots`, { json: {} }), 'diskBytes')
      await ok(`/v1/sandboxes/${a}/standby`, { json: { tier: 'stored' } })
      await only([a], 0)
    })
  })

  test('disk: volumes count, also after they were written to, and give room back when they go', async () => {
    await withQuotas({}, async () => {
      const makeVolume = (name: string) => call('/v1/volumes', { json: { name } })
      expect((await makeVolume('full')).status).toBe(201)
      const { id } = (await create({ volumes: [{ volume: 'full', path: '/data' }] })).body
      await server.ok(`/v1/keys/${keyId}`, { method: 'PATCH', json: { quotas: { diskBytes: 32 * MIB } } })
      expect((await makeVolume('second')).status).toBe(201)
      const code = `open("/data/f", "wb").write(b"x" * ${64 * MIB})`
      expect((await ok(`/v1/sandboxes/${id}/run`, { json: { code } })).exitCode).toBe(0)
      // No request names the volume: it is measured all the same.
      const bytes = async () =>
        (await ok('/v1/volumes')).items.find(({ name }: { name: string }) => name === 'full').bytes
      await expect.poll(bytes, { timeout: 30_000 }).toBeGreaterThanOrEqual(64 * MIB)
      expectRefusal(await makeVolume('fourth'), 'diskBytes')
      expectRefusal(await create(), 'diskBytes')
      expectRefusal(await call(`/v1/sandboxes/${id}/fork`, { json: {} }), 'diskBytes')
      expect((await call(`/v1/sandboxes/${id}/snapshots`, { json: {} })).status).toBe(429)
      // Existing sandboxes continue, and can make room.
      expect(
        (await ok(`/v1/sandboxes/${id}/run`, { json: { code: 'import os; os.remove("/data/f")' } })).exitCode,
      ).toBe(0)
      await expect.poll(async () => (await makeVolume('fourth')).status, { timeout: 30_000 }).toBe(201)
    })
    for (const { name } of (await ok('/v1/volumes')).items)
      await ok(`/v1/volumes/${name}`, { method: 'DELETE' })
  })

  test('hold when many ask at once', async () => {
    await withQuotas({ sandboxes: 2 }, async () => {
      const answers = await Promise.all(Array.from({ length: 6 }, () => create()))
      expect(answers.filter(({ status }) => status === 201).length).toBe(2)
      for (const answer of answers.filter(({ status }) => status !== 201)) expectRefusal(answer, 'sandboxes')
      await only(
        answers.filter(({ status }) => status === 201).map(({ body }) => body.id),
        2,
      )
    })
  })
})

describe('without a quota', () => {
  test('sandboxes start and wake although their limits add up to more than the host has', async () => {
    const limits = { memoryBytes: Math.floor((totalmem() * 0.9) / MIB) * MIB }
    const json = { idleTimeoutMs: 0, limits }
    const ids = [await create(json), await create(json), await create(json)].map(({ body }) => body.id)
    await ok(`/v1/sandboxes/${ids[0]}/standby`, { json: { tier: 'stored' } })
    for (const id of ids) {
      expect((await ok(`/v1/sandboxes/${id}/run`, { json: { code: 'print(1)' } })).stdout).toBe('1\n')
      await ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
    }
  })

  test('a sandbox that names no limit gets a share of the host, and sees what it has and uses', async () => {
    const { id, limits } = await ok('/v1/sandboxes', { json: { idleTimeoutMs: 0 } })
    expect(limits.memoryBytes).toBe(Math.min(8 * GIB, Math.max(GIB, Math.floor(totalmem() / 2 / MIB) * MIB)))
    expect(limits.cpus).toBe(Math.min(4, Math.max(1, Math.floor(availableParallelism() / 2))))
    const code = `
import json, os, shutil
def meminfo(name): return next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith(name)) * 1024
disk = shutil.disk_usage("/")
print(json.dumps([meminfo("MemTotal"), meminfo("MemAvailable"), os.cpu_count(), disk.total, disk.used]))`
    const look = async (): Promise<number[]> =>
      JSON.parse((await ok(`/v1/sandboxes/${id}/run`, { json: { code } })).stdout)
    expect(await look()).toEqual([
      ...[limits.memoryBytes, expect.any(Number), limits.cpus],
      ...[limits.diskBytes, expect.any(Number)],
    ])
    // The next measurement finds what was allocated and written.
    await ok(`/v1/sandboxes/${id}/run`, {
      json: { code: 'b = bytearray(300 * 2**20); open("/root/f", "wb").write(bytes(200 * 2**20))' },
    })
    const left = limits.memoryBytes - 300 * MIB
    await expect.poll(async () => (await look())[1], { timeout: 10_000 }).toBeLessThan(left)
    await expect.poll(async () => (await look())[4], { timeout: 20_000 }).toBeGreaterThanOrEqual(200 * MIB)

    const json = { limits: { memoryBytes: 700 * MIB, diskBytes: GIB } }
    await ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json })
    const shown = [700 * MIB, expect.any(Number), limits.cpus, GIB, expect.any(Number)]
    expect(await look()).toEqual(shown)
    await ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await look()).toEqual(shown)
    await ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })
})
