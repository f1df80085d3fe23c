import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

const MIB = 1024 ** 2

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 777_000, storeAfterMs: 4_000 })
})
afterEach(async () => {
  await server.clear()
})
afterAll(() => server?.cleanUp())

const create = (json: object = {}) => server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0, ...json } })
const patch = (id: string, json: object) => server.call(`/v1/sandboxes/${id}`, { method: 'PATCH', json })
const isGone = async (id: string) => (await server.call(`/v1/sandboxes/${id}`)).status === 404

describe('creating', () => {
  test('without a policy takes that of the configuration', async () => {
    expect(await server.ok('/v1/sandboxes', { json: {} })).toMatchObject({
      idleTimeoutMs: 777_000,
      storeAfterMs: 4_000,
    })
    expect(await server.ok('/v1/sandboxes', { method: 'POST' })).toMatchObject({ idleTimeoutMs: 777_000 })
    expect(await create({ storeAfterMs: 9 })).toMatchObject({ idleTimeoutMs: 0, storeAfterMs: 9 })
  })

  test('get-or-create by name answers with the one that exists, unchanged, also to many at once', async () => {
    const json = { name: 'shared', getOrCreate: true, metadata: { a: '1' } }
    const answers = await Promise.all(Array.from({ length: 4 }, () => server.call('/v1/sandboxes', { json })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 201])
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    const again = await server.call('/v1/sandboxes', { json: { ...json, metadata: { a: '2' } } })
    expect([again.status, again.body.metadata]).toEqual([200, { a: '1' }])
    const two = await Promise.all([1, 2].map(() => server.call('/v1/sandboxes', { json: { name: 'one' } })))
    expect(two.map(({ status }) => status).sort()).toEqual([201, 409])
    expect((await server.ok('/v1/sandboxes')).items).toHaveLength(2)
  })

  test('a caller that disconnects during the create leaves nothing', async () => {
    const leave = async () => {
      // These take what was made ahead of need, so that the last one takes longer than its caller waits.
      const others = [create(), create(), create()]
      const controller = new AbortController()
      const asked = server.fetch('/v1/sandboxes', { json: { name: 'left' }, signal: controller.signal })
      setTimeout(() => controller.abort(), 5)
      const isAnswered = await asked
        .then((response) => response.text())
        .then(
          () => true,
          () => false,
        )
      for (const { id } of await Promise.all(others))
        await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
      return !isAnswered
    }
    while (!(await leave())) await server.clear()
    await expect.poll(() => isGone('left')).toBe(true)
    expect(await server.factory.traces()).toEqual([])
  })
})

describe('changing', () => {
  test('policy, metadata and name, without waking; what is not named stays', async () => {
    const { id } = await create({ name: 'before', metadata: { a: '1', b: '2' } })
    await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    const at = new Date(Date.now() + 3_600_000).toISOString()
    const expires = { at, idleMs: 1_800_000, action: 'delete' }
    const changed = await patch(id, {
      name: 'after',
      metadata: { c: '3' },
      idleTimeoutMs: 5,
      storeAfterMs: 6,
      expires,
    })
    expect(changed.body).toMatchObject({
      ...{ id, name: 'after', metadata: { c: '3' }, idleTimeoutMs: 5, storeAfterMs: 6, expires },
      ...{ state: 'standby', tier: 'stored', ephemeral: false },
    })
    expect(changed.body.metadata).toEqual({ c: '3' })
    expect(await isGone('before')).toBe(true)
    const cleared = await patch('after', { name: null, expires: null })
    expect(cleared.body).not.toHaveProperty('name')
    expect(cleared.body).not.toHaveProperty('expires')
    expect(cleared.body).toMatchObject({ idleTimeoutMs: 5, metadata: { c: '3' } })
  })

  test('a name that is taken is refused, and nothing else of the change is done', async () => {
    await create({ name: 'taken' })
    const { id, limits } = await create({ name: 'mine' })
    const refused = await patch(id, { name: 'taken', idleTimeoutMs: 9, limits: { memoryBytes: 300 * MIB } })
    expect(refused.body.error.code).toBe('name_taken')
    expect(await server.ok(`/v1/sandboxes/${id}`)).toMatchObject({ name: 'mine', idleTimeoutMs: 0, limits })
    expect(memoryLimit(id)).toBe(limits.memoryBytes)
    expect((await patch(id, { name: 'mine' })).status).toBe(200)
  })

  test('limits hold at once, and after standby', async () => {
    const { id } = await create()
    await patch(id, { limits: { memoryBytes: 300 * MIB } })
    expect(memoryLimit(id)).toBe(300 * MIB)
    for (const tier of ['frozen', 'stored']) {
      await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
      const bytes = tier === 'frozen' ? 400 * MIB : 500 * MIB
      await patch(id, { limits: { memoryBytes: bytes } })
      await server.run(id, 'pass')
      expect(memoryLimit(id), tier).toBe(bytes)
    }
  })

  test('limits hold in forks of one that sleeps, and after going back to a time when they were others', async () => {
    const { id } = await create()
    const at = `/v1/sandboxes/${id}`
    const snapshots = [await server.ok(`${at}/snapshots`, { json: {} })]
    snapshots.push(await server.ok(`${at}/snapshots`, { json: { kind: 'files' } }))
    await patch(id, { limits: { memoryBytes: 300 * MIB } })
    for (const { id: snapshotId, kind } of snapshots) {
      await server.ok(`${at}/rollback`, { json: { snapshotId } })
      expect(memoryLimit(id), kind).toBe(300 * MIB)
    }
    await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
    await patch(id, { limits: { memoryBytes: 400 * MIB } })
    const { children } = await server.ok(`${at}/fork`, { json: { count: 1 } })
    expect(children[0].limits.memoryBytes).toBe(400 * MIB)
    expect(memoryLimit(children[0].id)).toBe(400 * MIB)
  })

  test('an expiry that has come deletes, asleep or not; an ephemeral one sleeps until then', async () => {
    const awake = await create()
    const asleep = await create()
    await server.ok(`/v1/sandboxes/${asleep.id}/standby`, { json: { tier: 'stored' } })
    const brief = await create({ expires: { afterMs: 1, action: 'delete' } })
    for (const { id } of [awake, asleep]) await patch(id, { expires: { idleMs: 300, action: 'delete' } })
    const ephemeral = await create({ ephemeral: true, idleTimeoutMs: 300 })
    await expect
      .poll(async () => (await server.ok(`/v1/sandboxes/${ephemeral.id}`)).state, { timeout: 15_000 })
      .toBe('standby')
    const { expiresAt } = await server.ok(`/v1/sandboxes/${ephemeral.id}/why`)
    const { lastActiveAt } = await server.ok(`/v1/sandboxes/${ephemeral.id}`)
    expect(Math.abs(Date.parse(expiresAt) - Date.parse(lastActiveAt) - 3_600_000)).toBeLessThan(5_000)
    await patch(ephemeral.id, { expires: { idleMs: 300, action: 'delete' } })
    for (const { id } of [awake, asleep, ephemeral, brief])
      await expect.poll(() => isGone(id), { timeout: 15_000 }).toBe(true)
    // They are gone for callers before the last of them is removed.
    await expect.poll(() => server.factory.traces(), { timeout: 15_000 }).toEqual([])
    await expect.poll(async () => (await server.ok('/v1/snapshots')).items).toEqual([])
  })
})

describe('lists', () => {
  test('filter by state, name, template and metadata, and continue where the page before ended', async () => {
    const ids: string[] = []
    for (const index of [0, 1, 2, 3, 4])
      ids.push((await create({ name: `n${index}`, metadata: { odd: String(index % 2), 'a/b.c': 'x' } })).id)
    await server.ok('/v1/sandboxes/n1/standby', { json: { tier: 'stored' } })
    const find = async (query: string) =>
      (await server.ok(`/v1/sandboxes?${query}`)).items.map(({ name }: { name: string }) => name).sort()
    expect(await find('state=standby')).toEqual(['n1'])
    expect(await find('name=n3')).toEqual(['n3'])
    expect(await find('metadata[odd]=1')).toEqual(['n1', 'n3'])
    expect(await find('metadata.odd=1&state=running')).toEqual(['n3'])
    expect(await find('metadata[a%2Fb.c]=x&metadata[odd]=0')).toEqual(['n0', 'n2', 'n4'])
    expect(await find('template=python&limit=5')).toHaveLength(5)
    expect(await find('template=other')).toEqual([])
    expect(await find("metadata[odd]=1'%20OR%201=1")).toEqual([])
    const seen: string[] = []
    let cursor = ''
    do {
      const page = await server.ok(`/v1/sandboxes?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
      expect(page.items.length).toBeLessThanOrEqual(2)
      seen.push(...page.items.map(({ id }: { id: string }) => id))
      // What goes in between pages neither repeats nor hides another.
      if (cursor === '') await server.ok(`/v1/sandboxes/${page.items[0].id}`, { method: 'DELETE' })
      cursor = page.nextCursor ?? ''
    } while (cursor !== '')
    expect(seen).toEqual(ids.reverse())
    expect((await server.call('/v1/sandboxes?cursor=bm9uc2Vuc2U')).body.error.code).toBe('invalid_argument')
  })
})

describe('sleeping and waking', () => {
  test('standby and resume again are fine; the ledger has each once, with cause, latency and bytes', async () => {
    const { id } = await create()
    const at = `/v1/sandboxes/${id}`
    await server.run(id, 'x = 1')
    for (const tier of ['frozen', 'frozen', 'stored', 'stored'])
      expect(await server.ok(`${at}/standby`, { json: { tier } })).toMatchObject({ state: 'standby', tier })
    expect(await server.ok(`${at}/resume`, { json: {} })).toMatchObject({ state: 'running' })
    expect(await server.ok(`${at}/resume`, { method: 'POST' })).toMatchObject({ state: 'running' })
    expect(await server.run(id, 'print(x)')).toBe('1\n')
    const { items } = await server.ok(`${at}/ledger`)
    expect(items.map(({ event }: { event: string }) => event)).toEqual(['created', 'slept', 'stored', 'woke'])
    expect(items[1]).toMatchObject({
      cause: 'asked',
      tier: 'frozen',
      latencyMs: expect.any(Number),
      bytes: expect.any(Number),
    })
    expect(items[3]).toMatchObject({ cause: 'resume', tier: 'stored', latencyMs: expect.any(Number) })
    const page = await server.ok(`${at}/ledger?limit=2`)
    const rest = await server.ok(`${at}/ledger?cursor=${page.nextCursor}`)
    expect([...page.items, ...rest.items]).toEqual(items)
    expect((await server.ok(`${at}/ledger?after=${items[2].seq}`)).items).toEqual(items.slice(3))
  })

  test('why says what keeps it awake, and a hold does until it is over', async () => {
    const { id } = await create({ idleTimeoutMs: 300 })
    const at = `/v1/sandboxes/${id}`
    const held = await server.ok(`${at}/hold`, { json: { what: 'a webhook', forMs: 2_000 } })
    expect(Date.parse(held.until)).toBeGreaterThan(Date.now())
    const why = await server.ok(`${at}/why`)
    expect(why).toMatchObject({ state: 'running', work: [{ kind: 'hold', what: 'a webhook' }] })
    expect(why.summary).toContain('a webhook')
    await expect.poll(async () => (await server.ok(at)).state, { timeout: 15_000 }).toBe('standby')
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(held.until))
    expect(await server.ok(`${at}/why`)).toMatchObject({
      state: 'standby',
      tier: 'frozen',
      work: [],
      storesAt: expect.any(String),
    })
    await expect.poll(async () => (await server.ok(at)).tier, { timeout: 15_000 }).toBe('stored')
    const { items } = await server.ok(`${at}/ledger`)
    expect(items.map(({ event, cause }: { event: string; cause: string }) => `${event} ${cause}`)).toEqual([
      'created asked',
      'slept idle',
      'stored store_after',
    ])
    const nothing = { connections: 0, denied: 0, names: 0, bytesOut: 0, bytesIn: 0 }
    const metrics = { sandboxId: id, state: 'standby', tier: 'stored', network: nothing }
    expect(await server.ok(`${at}/metrics`)).toEqual(metrics)
  })
})

/** What the processes of a sandbox are held to. */
function memoryLimit(id: string): number {
  const { burrowsDir } = server.factory.layout
  for (const burrow of readdirSync(burrowsDir)) {
    const path = join(burrowsDir, burrow, 'burrow.json')
    // Others come and go meanwhile.
    if (!existsSync(path)) continue
    const record = JSON.parse(readFileSync(path, 'utf8'))
    if (record.sandboxId === id) return record.limits.memoryBytes
  }
  throw new Error(`no burrow of ${id}`)
}
