import { rename } from 'node:fs/promises'
import { inspect } from 'node:util'
import { Dormouse, DormouseError, Sandbox } from 'dormouse'
import { describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()

describe('a sandbox', () => {
  test('keeps its variables from run to run and across sleep, under the same id', async () => {
    const sandbox = await server.create({ metadata: { story: 'sleep' } })
    await sandbox.runCode('import threading; box = {"n": 41}; address = id(box)')
    const id = await sandbox.idle({ tier: 'stored' })
    expect(sandbox.info).toMatchObject({ state: 'standby', tier: 'stored' })

    const again = await Sandbox.resume(id, { client: server.client })
    expect(again.info.state).toBe('running')
    expect(await again.runCode('box["n"] += 1; print(id(box) == address); box["n"]')).toMatchObject({
      stdout: 'True\n',
      text: '42',
      exitCode: 0,
    })
    await sandbox.delete()
    await expect(Sandbox.connect(id, { client: server.client })).rejects.toMatchObject({ code: 'not_found' })
  })

  test('is found by name, and getOrCreate finds the same one', async () => {
    const [one, two] = await Promise.all([
      Sandbox.getOrCreate('notes', { idleTimeoutMs: 0 }, { client: server.client }),
      Sandbox.getOrCreate('notes', { idleTimeoutMs: 0 }, { client: server.client }),
    ])
    expect(two?.id).toBe(one?.id)
    const found = await Sandbox.connect('notes', { client: server.client })
    expect(found).toMatchObject({ id: one?.id, name: 'notes' })
    await expect(server.create({ name: 'notes' })).rejects.toMatchObject({ code: 'name_taken', status: 409 })
    await one?.delete()
  })

  test('is listed page by page, by name and metadata', async () => {
    const made = await Promise.all(
      [1, 2, 3].map((n) => server.create({ metadata: { batch: 'x', n: `${n}` } })),
    )
    const all = await Sandbox.list({ metadata: { batch: 'x' } }, { client: server.client }).all()
    expect(all.map(({ id }) => id).sort()).toEqual(made.map(({ id }) => id).sort())
    const pages = Sandbox.list({ metadata: { batch: 'x' } }, { client: server.client })
    const first = await pages.page({ limit: 2 })
    const second = await pages.page({ limit: 2, cursor: first.nextCursor })
    expect([first.items.length, second.items.length, second.nextCursor]).toEqual([2, 1, undefined])
    await Promise.all(made.map((sandbox) => sandbox.delete()))
  })

  test('reports what it may reach and what was refused, and takes changes', async () => {
    const sandbox = await server.create({ network: { mode: 'allow', allow: ['example.com:443'] } })
    expect(sandbox.info.network).toEqual({ mode: 'allow', allow: ['example.com:443'] })
    await sandbox.update({ network: { mode: 'none' } })
    expect(sandbox.info.network).toEqual({ mode: 'none', allow: [] })
    const run = await sandbox.runCode('import socket; socket.getaddrinfo("example.com", 443)')
    expect(run.error?.name).toBe('gaierror')
    await expect
      .poll(async () => (await sandbox.network()).denied, { timeout: 10_000 })
      .toContainEqual(expect.objectContaining({ name: 'example.com', protocol: 'dns' }))
    expect((await sandbox.metrics()).network.denied).toBeGreaterThan(0)
    await expect(sandbox.update({ network: { mode: 'allow', allow: ['127.0.0.1'] } })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await sandbox.delete()
  })

  test('forks, snapshots and rolls back', async () => {
    const sandbox = await server.create()
    await sandbox.runCode('x = 1')
    const snapshot = await sandbox.snapshot({ name: 'before' })
    const children = await sandbox.fork(2)
    const texts = await Promise.all(
      children.map(async (child, index) => (await child.runCode(`x += ${index + 1}; x`)).text),
    )
    expect(texts).toEqual(['2', '3'])
    expect(children.every(({ info }) => info.forkedFrom === sandbox.id)).toBe(true)
    await sandbox.runCode('x = 100')
    await sandbox.rollback(snapshot)
    expect((await sandbox.runCode('x')).text).toBe('1')
    expect(
      (await server.client.snapshots.list({ sandboxId: sandbox.id }).all()).map(({ id }) => id),
    ).toContain(snapshot.id)
    await Promise.all([sandbox, ...children].map((each) => each.delete()))
  })

  test('is created from a snapshot by name, and its parent continues as it', async () => {
    const sandbox = await server.create({ name: 'origin' })
    await sandbox.runCode('x = 1')
    const { id } = await sandbox.snapshot({ name: 'ready' })
    expect((await server.client.snapshots.get('origin/ready')).id).toBe(id)
    await sandbox.runCode('x = 2')
    await sandbox.rollback('ready')
    expect((await sandbox.runCode('x')).text).toBe('1')
    const second = await server.create({ snapshot: 'origin/ready' })
    await second.runCode('x += 10')
    const parent = await second.promote()
    expect([parent.id, parent.name]).toEqual([sandbox.id, 'origin'])
    expect((await sandbox.runCode('x')).text).toBe('11')
    await expect(second.refresh()).rejects.toMatchObject({ code: 'not_found' })
    const [fork] = await sandbox.fork()
    await fork?.promote({ keep: true })
    expect((await fork?.refresh())?.state).toBe('running')
    // First: its name is found by that of the sandbox.
    await server.client.snapshots.delete('origin/ready')
    await Promise.all([sandbox.delete(), fork?.delete()])
  })

  test('is printed and becomes JSON as its info, without its client', async () => {
    const sandbox = await server.create({ name: 'shown' })
    expect(JSON.parse(JSON.stringify({ sandbox }))).toEqual({ sandbox: sandbox.info })
    expect(inspect(sandbox)).toBe(`Sandbox ${inspect(sandbox.info)}`)
    await sandbox.delete()
  })

  test('verifies snapshots, and throws for one that is damaged', async () => {
    const sandbox = await server.create()
    const { id } = await sandbox.snapshot()
    await server.client.snapshots.verify(id)
    const { images } = server.process.factory.layout.snapshot(id as never)
    await rename(images, `${images}.away`)
    await expect(server.client.snapshots.verify(id)).rejects.toMatchObject({
      code: 'snapshot_unusable',
      status: 409,
      message: expect.stringContaining('missing'),
      hint: expect.stringMatching(/./),
    })
    await rename(`${images}.away`, images)
    await server.client.snapshots.verify(id)
    await sandbox.delete()
  })

  test('reports why it is awake, what it did and what it uses, and can be changed', async () => {
    const sandbox = await server.create()
    await sandbox.hold('a webhook', 60_000)
    const why = await sandbox.why()
    expect(why.work.map(({ what }) => what).join()).toContain('a webhook')
    await sandbox.idle()
    await sandbox.resume()
    const events = (await sandbox.ledger().all()).map(({ event }) => event)
    expect(events).toEqual(expect.arrayContaining(['created', 'slept', 'woke']))
    expect((await sandbox.metrics()).usage?.memoryBytes).toBeGreaterThan(0)
    expect((await sandbox.metrics()).memory).toBeUndefined()
    expect((await sandbox.metrics({ memory: true })).memory?.sharedBytes).toBeGreaterThan(0)
    expect((await sandbox.usage()).sandboxes.map(({ sandboxId }) => sandboxId)).toEqual([sandbox.id])
    await sandbox.update({ name: 'renamed', metadata: { a: 'b' } })
    expect(sandbox.name).toBe('renamed')
    expect((await sandbox.refresh()).metadata).toEqual({ a: 'b' })
    await sandbox.delete()
  })

  test('tells when a timer wakes it', async () => {
    const sandbox = await server.create({ wakeOnTimer: true })
    await sandbox.runCode(
      'import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()',
    )
    await sandbox.idle()
    const { wakesAt = '', stateSince } = await sandbox.refresh()
    expect(Date.parse(wakesAt)).toBeGreaterThan(Date.parse(stateSince))
    expect((await sandbox.why()).summary).toContain('A timer wakes it in')
    expect(await sandbox.update({ wakeOnTimer: false })).toMatchObject({ wakeOnTimer: false })
    expect(await sandbox.refresh()).not.toHaveProperty('wakesAt')
    await sandbox.delete()
  })

  test('that is ephemeral survives a sleep, and is deleted when it is closed', async () => {
    const sandbox = await server.create({ ephemeral: true, idleTimeoutMs: 500 })
    await sandbox.runCode('kept = 5')
    await expect.poll(async () => (await sandbox.refresh()).state, { timeout: 15_000 }).toBe('standby')
    expect((await sandbox.runCode('kept')).text).toBe('5')
    await sandbox.close()
    await expect(sandbox.refresh()).rejects.toMatchObject({ code: 'not_found' })
  })

  test('is deleted after its block if it is ephemeral, and stays otherwise', async () => {
    let ids: string[]
    {
      await using passing = await server.create({ ephemeral: true })
      await using staying = await server.create()
      ids = [passing.id, staying.id]
    }
    expect(await server.ids()).toEqual([ids[1]])
    await Sandbox.connect(ids[1] as string, { client: server.client }).then((sandbox) => sandbox.delete())
  })

  test('has contexts with separate variables', async () => {
    const sandbox = await server.create()
    await sandbox.contexts.create('other')
    await sandbox.runCode('x = 1')
    const there = await sandbox.runCode('x', { context: 'other' })
    expect(there.error?.name).toBe('NameError')
    expect((await sandbox.contexts.list()).map(({ name }) => name).sort()).toEqual(['default', 'other'])
    await sandbox.contexts.delete('other')
    await sandbox.delete()
  })

  test('is made from a template, which can be made from a snapshot', async () => {
    const sandbox = await server.create()
    await sandbox.runCode('ready = "yes"')
    const { id: snapshotId } = await sandbox.snapshot()
    await server.client.templates.create({ name: 'prepared', snapshotId })
    expect((await server.client.templates.wait('prepared')).state).toBe('ready')
    const child = await server.create({ template: 'prepared' })
    expect((await child.runCode('ready')).text).toBe("'yes'")
    expect((await server.client.templates.list().all()).map(({ name }) => name)).toContain('python')
    await child.delete()
    await sandbox.delete()
  })
})

test('a template is built from a description, and lists its packages', async () => {
  const { templates } = server.client
  const commands = ['echo built > /srv/it']
  await templates.create({ name: 'built', from: 'python', network: { mode: 'none' }, commands })
  const made = await templates.wait('built')
  expect(made).toMatchObject({ state: 'ready', source: 'description', from: 'python' })
  const { items, ...summary } = await templates.materials('built')
  expect(made.materials).toEqual(summary)
  expect(items).toContainEqual(expect.objectContaining({ type: 'deb', name: 'bash' }))
  const sandbox = await server.create({ template: 'built' })
  expect(await sandbox.files.read('/srv/it')).toBe('built\n')
  await sandbox.delete()
  await templates.delete('built')
})

describe('an error', () => {
  test('has a code, a hint and the id of the request', async () => {
    const error = await Sandbox.connect('nobody', { client: server.client }).catch(
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(DormouseError)
    expect(error).toMatchObject({ name: 'DormouseError', code: 'not_found', status: 404 })
    expect((error as DormouseError).hint).not.toBe('')
    expect((error as DormouseError).requestId).toMatch(/^req-/)
  })

  test('names the field that is wrong', async () => {
    await expect(server.create({ name: '../x' })).rejects.toMatchObject({
      code: 'invalid_argument',
      details: { field: 'name' },
    })
  })

  test('differs for a wrong key and a server that does not run, and comes fast', async () => {
    const wrong = server.clientWith({ apiKey: 'dm_wrong' })
    await expect(Sandbox.create({}, { client: wrong })).rejects.toMatchObject({
      code: 'unauthorized',
      status: 401,
    })
    const nowhere = new Dormouse({ url: 'http://127.0.0.1:9', apiKey: 'x' })
    const error = await Sandbox.create({}, { client: nowhere }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'server_unreachable', status: undefined })
  })

  test('is `cancelled` when the caller aborts', async () => {
    const reason = new Error('enough')
    const error = await Sandbox.create(
      {},
      { client: server.client, signal: AbortSignal.abort(reason) },
    ).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'cancelled', cause: reason })
  })
})
