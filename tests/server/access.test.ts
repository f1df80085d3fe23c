import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterAll(() => server?.cleanUp())

async function newKey(request: object = {}): Promise<{ id: string; key: string }> {
  return await server.ok('/v1/keys', { json: { name: 'test', scopes: ['run'], ...request } })
}

describe('two keys', () => {
  let ada: { id: string; key: string }
  let bob: { id: string; key: string }
  let sandbox = ''
  let snapshot = ''
  let run = ''
  beforeAll(async () => {
    ;[ada, bob] = await Promise.all([newKey(), newKey()])
    const as = { key: ada.key }
    sandbox = (await server.ok('/v1/sandboxes', { json: { name: 'secret', idleTimeoutMs: 0 }, ...as })).id
    run = (await server.ok(`/v1/sandboxes/${sandbox}/run`, { json: { code: 'x = 1' }, ...as })).runId
    snapshot = (await server.ok(`/v1/sandboxes/${sandbox}/snapshots`, { json: { name: 's' }, ...as })).id
    await server.ok('/v1/templates', { json: { name: 'mine', snapshotId: snapshot }, ...as })
  })

  test('cannot see or touch what is the other’s, in the words for what does not exist', async () => {
    const own = await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0 }, key: bob.key })
    const [noSandbox, noSnapshot, noRun] = [
      'sb-2222222222222222',
      'sn-2222222222222222',
      'run-2222222222222222',
    ]
    const pairs: [theirs: string, nothing: string, options: object][] = [
      [`/v1/sandboxes/${sandbox}`, `/v1/sandboxes/${noSandbox}`, {}],
      ['/v1/sandboxes/secret', '/v1/sandboxes/nothing', {}],
      [`/v1/sandboxes/${sandbox}/run`, `/v1/sandboxes/${noSandbox}/run`, { json: { code: '1' } }],
      [`/v1/sandboxes/${sandbox}`, `/v1/sandboxes/${noSandbox}`, { method: 'DELETE' }],
      [`/v1/sandboxes/${sandbox}`, `/v1/sandboxes/${noSandbox}`, { method: 'PATCH', json: { name: 'b' } }],
      [`/v1/sandboxes/${sandbox}/fork`, `/v1/sandboxes/${noSandbox}/fork`, { json: {} }],
      [
        `/v1/sandboxes/${sandbox}/files?path=/etc/hostname`,
        `/v1/sandboxes/${noSandbox}/files?path=/etc/hostname`,
        {},
      ],
      [`/v1/sandboxes/${sandbox}/runs/${run}`, `/v1/sandboxes/${noSandbox}/runs/${run}`, {}],
      [`/v1/sandboxes/${own.id}/runs/${run}`, `/v1/sandboxes/${own.id}/runs/${noRun}`, {}],
      [`/v1/snapshots/${snapshot}`, `/v1/snapshots/${noSnapshot}`, {}],
      [`/v1/snapshots/${snapshot}`, `/v1/snapshots/${noSnapshot}`, { method: 'DELETE' }],
      ['/v1/templates/mine', '/v1/templates/nothing', {}],
      ['/v1/templates/mine', '/v1/templates/nothing', { method: 'DELETE' }],
    ]
    for (const [theirs, nothing, options] of pairs) {
      const [a, b] = await Promise.all(
        [theirs, nothing].map((path) => server.call(path, { ...options, key: bob.key })),
      )
      expect(a?.status, theirs).toBe(404)
      expect(plain(a?.body), theirs).toEqual(plain(b?.body))
    }
    const rollback = (snapshotId: string) =>
      server.call(`/v1/sandboxes/${own.id}/rollback`, { json: { snapshotId }, key: bob.key })
    expect(plain((await rollback(snapshot)).body)).toEqual(plain((await rollback(noSnapshot)).body))
    const create = (template: string) => server.call('/v1/sandboxes', { json: { template }, key: bob.key })
    expect(plain((await create('mine')).body)).toEqual(plain((await create('nothing')).body))
    const template = (snapshotId: string) =>
      server.call('/v1/templates', { json: { name: 'bobs', snapshotId }, key: bob.key })
    expect(plain((await template(snapshot)).body)).toEqual(plain((await template(noSnapshot)).body))
    await server.ok(`/v1/sandboxes/${own.id}`, { method: 'DELETE', key: bob.key })
    expect(await server.ok(`/v1/sandboxes/${sandbox}`, { key: ada.key })).toMatchObject({ name: 'secret' })
  })

  test('have lists of their own, and may use the same names', async () => {
    const lists = ['/v1/sandboxes', '/v1/snapshots', `/v1/snapshots?sandboxId=${sandbox}`]
    for (const list of lists) {
      const answer = await server.call(list, { key: bob.key })
      expect(answer.body.items ?? [], list).toEqual([])
    }
    const { items } = await server.ok('/v1/templates', { key: bob.key })
    expect(items.map(({ name }: { name: string }) => name)).toEqual(['python'])
    expect(
      (await server.ok('/v1/usage', { key: bob.key })).sandboxes.map(
        (one: { sandboxId: string }) => one.sandboxId,
      ),
    ).not.toContain(sandbox)
    const same = await server.ok('/v1/sandboxes', {
      json: { name: 'secret', getOrCreate: true },
      key: bob.key,
    })
    expect(same.id).not.toBe(sandbox)
    await server.ok('/v1/sandboxes/secret', { method: 'DELETE', key: bob.key })
    expect(await server.ok('/v1/sandboxes/secret', { key: ada.key })).toMatchObject({ id: sandbox })
  })

  test('an admin sees and uses those of all keys', async () => {
    const { items } = await server.ok('/v1/sandboxes')
    expect(items.map(({ id }: { id: string }) => id)).toContain(sandbox)
    expect(await server.run(sandbox, 'print(x)')).toBe('1\n')
    expect(await server.ok(`/v1/snapshots/${snapshot}`)).toMatchObject({ sandboxId: sandbox })
    expect(await server.ok('/v1/templates/mine')).toMatchObject({ snapshotId: snapshot })
    expect(await server.ok(`/v1/sandboxes/${sandbox}/runs/${run}`)).toMatchObject({ state: 'finished' })
  })
})

describe('scopes', () => {
  test('read sees and changes nothing; only admin manages keys', async () => {
    const reader = await newKey({ scopes: ['read'] })
    const runner = await newKey()
    const { paths } = await server.ok('/openapi.json')
    for (const [path, methods] of Object.entries<Record<string, { 'x-scope': string }>>(paths)) {
      for (const [method, { 'x-scope': scope }] of Object.entries(methods)) {
        // A reader has sessions of its own on the page.
        if (path.includes('pty') || path.startsWith('/v1/session')) continue
        const address = path.replace('{id}', 'none').replace(/\{\w+\}/g, 'x')
        const ask = async (key: string) =>
          (await server.call(address, { method: method.toUpperCase(), key })).body?.error?.code
        if (scope === 'run' || scope === 'admin')
          expect(await ask(reader.key), `${method} ${path}`).toBe('scope_missing')
        if (scope === 'admin') expect(await ask(runner.key), `${method} ${path}`).toBe('scope_missing')
        expect(
          scope === 'open' || method === 'get' || scope !== 'read',
          `${method} ${path} is for readers`,
        ).toBe(true)
      }
    }
  })
})

describe('a revoked key', () => {
  test('is refused at once, its streams end, and its sandboxes stay', async () => {
    const { id, key } = await newKey()
    const sandbox = await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0 }, key })
    const stream = await server.fetch(`/v1/sandboxes/${sandbox.id}/run`, {
      json: { code: 'import time\nprint("on", flush=True)\ntime.sleep(30)' },
      headers: { accept: 'application/x-ndjson' },
      key,
    })
    const watch = await server.fetch(`/v1/sandboxes/${sandbox.id}/files/watch?path=/root`, { key })
    const isUnderWay = async () => (await server.ok(`/v1/sandboxes/${sandbox.id}/why`)).work.length
    await expect.poll(isUnderWay).toBeGreaterThanOrEqual(2)
    const began = Date.now()
    await server.ok(`/v1/keys/${id}`, { method: 'DELETE' })
    expect((await server.call('/v1/sandboxes', { key })).body.error.code).toBe('unauthorized')
    const [text, watched] = await Promise.all([stream.text(), watch.text()])
    expect(Date.now() - began).toBeLessThan(10_000)
    for (const lines of [text, watched])
      expect(JSON.parse(lines.trim().split('\n').at(-1) ?? '')).toMatchObject({
        type: 'failed',
        error: { code: 'unauthorized' },
      })
    expect(await server.ok(`/v1/sandboxes/${sandbox.id}`)).toMatchObject({ state: 'running' })
    await server.ok(`/v1/sandboxes/${sandbox.id}`, { method: 'DELETE' })
  })

  test('the last admin key cannot be revoked', async () => {
    const { items } = await server.ok('/v1/keys')
    const admin = items.find(
      (one: { scopes: string[]; revokedAt?: string }) => one.scopes.includes('admin') && !one.revokedAt,
    )
    expect((await server.call(`/v1/keys/${admin.id}`, { method: 'DELETE' })).body.error.code).toBe('conflict')
    expect((await server.call('/v1/keys')).status).toBe(200)
  })
})

describe('a rate limit', () => {
  test('answers 429 and when to come back, and holds for its key alone', async () => {
    const { key } = await newKey({ rateLimit: { perSecond: 1, burst: 3 } })
    const answers = await Promise.all(Array.from({ length: 8 }, () => server.call('/v1/sandboxes', { key })))
    const refused = answers.filter(({ status }) => status === 429)
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3)
    expect(refused.length).toBeGreaterThanOrEqual(3)
    for (const { body, headers } of refused) {
      expect(body.error.code).toBe('rate_limited')
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    }
    expect((await server.call('/v1/sandboxes')).status).toBe(200)
    await sleep(Number(refused[0]?.headers.get('retry-after')) * 1000)
    expect((await server.call('/v1/sandboxes', { key })).status).toBe(200)
  })
})

/** Without what tells one request from another, and without the ids that the caller sent himself. */
function plain(body: { error?: { requestId?: string } } | undefined): string {
  return JSON.stringify({ ...body?.error, requestId: '' })
    .replace(/(sb|sn|run)-[2-9a-z]{16}/g, '$1')
    .replace(/secret|nothing|mine/g, 'NAME')
}
