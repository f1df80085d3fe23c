import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from './testing/test-app.ts'

let http: TestApp
beforeAll(async () => {
  http = await testApp()
})
beforeEach(() => http.reset())
afterAll(async () => {
  await http[Symbol.asyncDispose]()
})

// Every answer below is also compared with its schema: see `checkAnswers`.
const create = async (body: unknown = {}) => (await http.send('POST', '/v1/sandboxes', body)).json

describe('sandboxes', () => {
  test('are created with the defaults, looked at by id and by name, and deleted', async () => {
    const made = await http.send('POST', '/v1/sandboxes', { name: 'a', env: { TOKEN: 'x' } })
    expect(made.status).toBe(201)
    expect(made.json).toMatchObject({
      ...{ name: 'a', template: 'python', state: 'running', idleTimeoutMs: 15_000, ephemeral: false },
      limits: { memoryBytes: 1024 ** 3, cpus: 1, pids: 512 },
    })
    expect(made.text).not.toContain('TOKEN')
    expect((await http.send('GET', '/v1/sandboxes/a')).json.id).toBe(made.json.id)
    expect((await http.send('DELETE', `/v1/sandboxes/${made.json.id}`)).status).toBe(204)
    expect((await http.send('GET', `/v1/sandboxes/${made.json.id}`)).json.error.code).toBe('not_found')
  })

  test('a name is taken once; getOrCreate answers 200 with the one that exists', async () => {
    const { id } = await create({ name: 'a' })
    expect((await http.send('POST', '/v1/sandboxes', { name: 'a' })).json.error.code).toBe('name_taken')
    const found = await http.send('POST', '/v1/sandboxes', { name: 'a', getOrCreate: true })
    expect([found.status, found.json.id]).toEqual([200, id])
  })

  test('a name may begin as ids do', async () => {
    expect((await create({ name: 'run-nightly' })).name).toBe('run-nightly')
    expect((await http.send('GET', '/v1/sandboxes/run-nightly')).status).toBe(200)
  })

  test('are listed page by page, by state, template, name and metadata', async () => {
    const { id } = await create({ name: 'a', metadata: { user: '42', 'team/x': 'y' } })
    await create({ metadata: { user: '43' } })
    await http.send('POST', '/v1/sandboxes/a/standby', { tier: 'stored' })
    const ids = async (query: string) =>
      (await http.send('GET', `/v1/sandboxes?${query}`)).json.items.map((item: { id: string }) => item.id)
    for (const query of [
      'metadata.user=42',
      'metadata[user]=42&metadata.team/x=y',
      'state=standby',
      'name=a',
    ]) {
      expect(await ids(query), query).toEqual([id])
    }
    expect(await ids('metadata.user=42&state=running')).toEqual([])
    expect(await ids('template=python')).toHaveLength(2)
    const first = (await http.send('GET', '/v1/sandboxes?limit=1')).json
    const second = (await http.send('GET', `/v1/sandboxes?limit=1&cursor=${first.nextCursor}`)).json
    expect([first.items[0].id, second.items.length, second.nextCursor]).toEqual([id, 1, undefined])
  })

  test('a change leaves alone what it does not name, and null takes away', async () => {
    const { id } = await create({ name: 'a', metadata: { k: 'v' }, expires: { idleMs: 5, action: 'delete' } })
    const changed = await http.send('PATCH', `/v1/sandboxes/${id}`, {
      limits: { cpus: 2 },
      expires: null,
      name: null,
    })
    expect(changed.json).toMatchObject({ metadata: { k: 'v' }, limits: { cpus: 2, pids: 512 } })
    expect(changed.json).not.toHaveProperty('expires')
    expect(changed.json).not.toHaveProperty('name')
    expect((await http.send('PATCH', `/v1/sandboxes/${id}`, {})).json.error.code).toBe('invalid_argument')
    expect((await http.send('PATCH', `/v1/sandboxes/${id}`, { template: 'x' })).json.error.code).toBe(
      'invalid_argument',
    )
  })
})

describe('lifecycle', () => {
  test('standby goes to the depth that is asked for, resume comes back; a body is not needed', async () => {
    const { id } = await create()
    expect((await http.send('POST', `/v1/sandboxes/${id}/standby`)).json).toMatchObject({
      state: 'standby',
      tier: 'frozen',
    })
    expect((await http.send('POST', `/v1/sandboxes/${id}/standby`, { tier: 'stored' })).json.tier).toBe(
      'stored',
    )
    expect((await http.send('POST', `/v1/sandboxes/${id}/resume`)).json.state).toBe('running')
    expect((await http.send('POST', `/v1/sandboxes/${id}/resume`, { x: 1 })).json.error.code).toBe(
      'invalid_argument',
    )
  })

  test('fork makes 1 to 100 children', async () => {
    const { id } = await create()
    const forked = await http.send('POST', `/v1/sandboxes/${id}/fork`, { count: 3 })
    expect([forked.status, forked.json.children.length]).toEqual([201, 3])
    expect(forked.json.children[0].forkedFrom).toBe(id)
    for (const count of [0, 101, 1.5, '2']) {
      expect(
        (await http.send('POST', `/v1/sandboxes/${id}/fork`, { count })).json.error.code,
        String(count),
      ).toBe('invalid_argument')
    }
    expect(http.sandboxes.held.size).toBe(4)
  })

  test('a hold is declared for a time', async () => {
    const { id } = await create()
    const answer = await http.send('POST', `/v1/sandboxes/${id}/hold`, { what: 'a webhook', forMs: 60_000 })
    expect(Date.parse(answer.json.until)).toBeGreaterThan(Date.now() + 50_000)
    expect(http.sandboxes.held.get(id)?.holds).toEqual([{ what: 'a webhook', untilMs: 60_000 }])
    expect((await http.send('POST', `/v1/sandboxes/${id}/hold`, { what: 'x' })).json.error.code).toBe(
      'invalid_argument',
    )
  })

  test('why, metrics and the ledger', async () => {
    const { id } = await create()
    expect((await http.send('GET', `/v1/sandboxes/${id}/why`)).json.work[0].kind).toBe('recent')
    expect((await http.send('GET', `/v1/sandboxes/${id}/metrics`)).json).toMatchObject({
      sandboxId: id,
      usage: { pids: 4 },
    })
    const memory = async (query: string) =>
      (await http.send('GET', `/v1/sandboxes/${id}/metrics${query}`)).json.memory
    expect(await memory('')).toBeUndefined()
    expect(await memory('?memory=true')).toMatchObject({ privateBytes: 5, sharedBytes: 6 })
    const first = (await http.send('GET', `/v1/sandboxes/${id}/ledger?limit=2`)).json
    expect(first.items.map(({ seq }: { seq: number }) => seq)).toEqual([0, 1])
    const second = (await http.send('GET', `/v1/sandboxes/${id}/ledger?cursor=${first.nextCursor}`)).json
    expect(second.items.map(({ seq }: { seq: number }) => seq)).toEqual([2])
    expect((await http.send('GET', `/v1/sandboxes/${id}/ledger?after=0&limit=1`)).json.items[0].seq).toBe(1)
  })
})

describe('snapshots, templates, volumes', () => {
  test('a snapshot is made, listed, gone back to and deleted', async () => {
    const { id } = await create({ name: 'a' })
    const { json: snapshot } = await http.send('POST', '/v1/sandboxes/a/snapshots', { name: 'before' })
    expect(snapshot).toMatchObject({ sandboxId: id, name: 'before', kind: 'full' })
    expect((await http.send('GET', '/v1/snapshots?sandboxId=a')).json.items).toHaveLength(1)
    expect((await http.send('GET', `/v1/snapshots/${snapshot.id}`)).json).toEqual(snapshot)
    const back = await http.send('POST', `/v1/sandboxes/${id}/rollback`, { snapshotId: snapshot.id })
    expect(back.json.headSnapshotId).toBe(snapshot.id)
    expect((await http.send('DELETE', `/v1/snapshots/${snapshot.id}`)).status).toBe(204)
    const gone = await http.send('POST', `/v1/sandboxes/${id}/rollback`, { snapshotId: snapshot.id })
    expect(gone.json.error.code).toBe('not_found')
  })

  test('a template is built from a description or made from a snapshot', async () => {
    const built = await http.send('POST', '/v1/templates', {
      name: 'polars',
      from: 'python',
      network: { mode: 'none' },
      pip: ['polars==1.2'],
      preload: ['polars'],
    })
    expect([built.status, built.json.state, built.json.from]).toEqual([202, 'building', 'python'])
    const { json: materials } = await http.send('GET', '/v1/templates/polars/materials')
    expect(materials.items).toEqual([{ type: 'deb', name: 'git', version: '1' }])
    const both = await http.send('POST', '/v1/templates', {
      name: 'both',
      snapshotId: 'sn-2222222222222222',
      from: 'python',
    })
    expect(both.json.error.code).toBe('invalid_argument')
    await create({ name: 'source' })
    const { json: saved } = await http.send('POST', '/v1/sandboxes/source/snapshots')
    const made = await http.send('POST', '/v1/templates', { name: 'mine', snapshotId: saved.id })
    expect([made.status, made.json.source]).toEqual([201, 'snapshot'])
    expect((await http.send('GET', '/v1/templates')).json.items).toHaveLength(3)
    expect((await http.send('DELETE', '/v1/templates/mine')).status).toBe(204)
    expect((await http.send('GET', '/v1/templates/mine')).json.error.code).toBe('template_not_found')
  })

  test('a volume is created once, looked at and deleted', async () => {
    expect((await http.send('POST', '/v1/volumes', { name: 'data' })).status).toBe(201)
    expect((await http.send('POST', '/v1/volumes', { name: 'data' })).json.error.code).toBe('name_taken')
    expect((await http.send('GET', '/v1/volumes/data')).json.usedBy).toEqual([])
    expect((await http.send('GET', '/v1/volumes')).json.items).toHaveLength(1)
    expect((await http.send('DELETE', '/v1/volumes/data')).status).toBe(204)
    expect((await http.send('GET', '/v1/volumes/data')).json.error.code).toBe('not_found')
  })
})

describe('usage, metrics, keys', () => {
  test('usage is JSON, or CSV by Accept or by name', async () => {
    expect((await http.send('GET', '/v1/usage')).json.total.wakes).toBe(5)
    for (const [url, accept] of [
      ['/v1/usage', 'text/csv'],
      ['/v1/usage?format=csv', 'application/json'],
    ] as const) {
      const { headers, text } = await http.send('GET', url, undefined, { accept })
      expect(headers['content-type']).toContain('text/csv')
      const [head, row, total, end] = text.split('\r\n')
      expect(head?.split(',').slice(0, 3)).toEqual(['sandboxId', 'name', 'deleted'])
      expect(row).toContain('sb-2222222222222222,"a,""b""",true,')
      expect([total?.startsWith('total,'), end]).toEqual([true, ''])
    }
  })

  test('metrics are text', async () => {
    const answer = await http.send('GET', '/metrics')
    expect([answer.headers['content-type'], answer.text]).toEqual([
      'text/plain; version=0.0.4',
      'dormouse_sandboxes 1\n',
    ])
  })

  test('a key is created, shown once, changed, revoked at once', async () => {
    const admin = http.as('admin')
    const { json: made } = await http.send(
      'POST',
      '/v1/keys',
      { name: 'ci', quotas: { sandboxes: 2 } },
      admin,
    )
    expect(made).toMatchObject({ name: 'ci', scopes: ['run'], quotas: { sandboxes: 2 } })
    const headers = { authorization: `Bearer ${made.key}` }
    expect((await http.send('GET', '/v1/sandboxes', undefined, headers)).status).toBe(200)
    const listed = await http.send('GET', '/v1/keys?limit=1000', undefined, admin)
    expect(listed.text).not.toContain(made.key)
    expect(listed.json.items.map(({ id }: { id: string }) => id)).toContain(made.id)
    const changed = await http.send('PATCH', `/v1/keys/${made.id}`, { quotas: { sandboxes: null } }, admin)
    expect(changed.json.quotas).toEqual({})
    expect((await http.send('GET', `/v1/keys/${made.id}`, undefined, admin)).json.name).toBe('ci')
    expect((await http.send('DELETE', `/v1/keys/${made.id}`, undefined, admin)).json.revokedAt).toBeDefined()
    expect((await http.send('GET', '/v1/sandboxes', undefined, headers)).status).toBe(401)
  })

  test('keys are listed page by page', async () => {
    const admin = http.as('admin')
    http.as('read')
    const all = (await http.send('GET', '/v1/keys', undefined, admin)).json.items
    const first = (await http.send('GET', '/v1/keys?limit=1', undefined, admin)).json
    const rest = (await http.send('GET', `/v1/keys?cursor=${first.nextCursor}`, undefined, admin)).json
    expect([...first.items, ...rest.items]).toEqual(all)
    expect((await http.send('GET', '/v1/keys?cursor=zzz', undefined, admin)).json.error.code).toBe(
      'invalid_argument',
    )
  })
})
