import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newVolumeId } from '@dormouse/contracts'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

describe('volumes over HTTP', () => {
  let server: ServerProcess
  let otherKey: string
  beforeAll(async () => {
    server = await ServerProcess.start({ idleTimeoutMs: 0 })
    otherKey = (await server.ok('/v1/keys', { json: { name: 'other', scopes: ['read', 'run'] } })).key
  })
  afterEach(() => server.clear())
  afterAll(() => server.cleanUp())

  const volume = (name: string, key?: string) =>
    server.call('/v1/volumes', { json: { name }, ...(key && { key }) })
  const look = (name: string, key?: string) => server.call(`/v1/volumes/${name}`, key ? { key } : {})
  const remove = (name: string, key?: string) =>
    server.call(`/v1/volumes/${name}`, { method: 'DELETE', ...(key && { key }) })
  const sandbox = (volumes: readonly object[], key?: string) =>
    server.call('/v1/sandboxes', { json: { volumes }, ...(key && { key }) })
  const removeSandbox = (id: string) => server.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  const directories = () => readdir(join(server.factory.stateDir, 'volumes'))

  test('a volume is shared by sandboxes, awake and asleep, and outlives them', async () => {
    const created = await volume('shared')
    expect(created).toMatchObject({ status: 201, body: { name: 'shared', usedBy: [] } })
    const writing = { volume: 'shared', path: '/data' }
    const reading = { volume: 'shared', path: '/mnt/in', readOnly: true }
    const { body: one } = await sandbox([writing])
    const { body: other } = await sandbox([reading])
    expect(one.volumes).toEqual([{ ...writing, readOnly: false }])

    await server.run(one.id, 'open("/data/note", "w").write("hello " * 1000)')
    expect(await server.run(other.id, 'print(open("/mnt/in/note").read(5))')).toBe('hello\n')
    const refused = await server.ok(`/v1/sandboxes/${other.id}/run`, {
      json: { code: 'open("/mnt/in/x", "w")' },
    })
    expect(refused.error).toMatchObject({ name: 'OSError' })
    const { body: seen } = await look('shared')
    expect(seen.bytes).toBeGreaterThan(6000)
    expect([...seen.usedBy].sort()).toEqual([one.id, other.id].sort())

    await server.ok(`/v1/sandboxes/${other.id}/standby`, { json: { tier: 'stored' } })
    await server.run(one.id, 'open("/data/note", "w").write("changed")')
    expect(await server.run(other.id, 'print(open("/mnt/in/note").read())')).toBe('changed\n')

    const { children } = await server.ok(`/v1/sandboxes/${one.id}/fork`, { json: { count: 1 } })
    expect(children[0].volumes).toEqual(one.volumes)
    await server.run(children[0].id, 'open("/data/child", "w").write("x")')
    expect(await server.run(one.id, 'import os; print(sorted(os.listdir("/data")))')).toBe(
      "['child', 'note']\n",
    )

    for (const { id } of [one, other, children[0]]) {
      expect((await remove('shared')).body.error).toMatchObject({ code: 'in_use' })
      await removeSandbox(id)
    }
    const { body: later } = await sandbox([writing])
    expect(await server.run(later.id, 'print(open("/data/note").read())')).toBe('changed\n')
    await removeSandbox(later.id)

    expect((await remove('shared')).status).toBe(204)
    expect((await look('shared')).body.error.code).toBe('not_found')
    expect(await directories()).toEqual([])
  })

  test('a snapshot that is kept keeps its volumes, also when its sandbox is gone', async () => {
    await volume('kept')
    const { body: one } = await sandbox([{ volume: 'kept', path: '/data' }])
    await server.run(one.id, 'open("/data/note", "w").write("kept")')
    const snapshot = await server.ok(`/v1/sandboxes/${one.id}/snapshots`, { json: { name: 'then' } })
    await removeSandbox(one.id)
    const { body } = await remove('kept')
    expect(body.error).toMatchObject({ code: 'in_use', message: expect.stringContaining(snapshot.id) })
    await server.call(`/v1/snapshots/${snapshot.id}`, { method: 'DELETE' })
    expect((await remove('kept')).status).toBe(204)
  })

  test('names are each key’s own, and so are volumes', async () => {
    expect((await volume('mine')).status).toBe(201)
    expect((await volume('mine')).body.error.code).toBe('name_taken')
    const before = (await directories()).length
    expect((await look('mine', otherKey)).body.error.code).toBe('not_found')
    expect((await remove('mine', otherKey)).body.error.code).toBe('not_found')
    expect((await server.ok('/v1/volumes', { key: otherKey })).items).toEqual([])
    const { status, body } = await sandbox([{ volume: 'mine', path: '/data' }], otherKey)
    expect(status).toBe(404)
    expect(body.error).toMatchObject({ code: 'not_found', message: expect.stringContaining('"mine"') })

    expect((await volume('mine', otherKey)).status).toBe(201)
    const { body: theirs } = await sandbox([{ volume: 'mine', path: '/data' }], otherKey)
    await server.ok(`/v1/sandboxes/${theirs.id}/run`, {
      json: { code: 'open("/data/x", "w")' },
      key: otherKey,
    })
    // The first one's is another, and no sandbox mounts it.
    expect((await look('mine')).body.usedBy).toEqual([])
    expect((await remove('mine')).status).toBe(204)
    expect((await remove('mine', otherKey)).body.error.code).toBe('in_use')
    await removeSandbox(theirs.id)
    expect((await remove('mine', otherKey)).status).toBe(204)
    expect(await directories()).toHaveLength(before - 1)
  })

  test('what cannot be mounted is refused before anything is made', async () => {
    await volume('bad')
    const before = (await server.ok('/v1/sandboxes')).items.length
    const at = (path: string) => sandbox([{ volume: 'bad', path }])
    for (const path of [
      '/',
      'data',
      '/a/../b',
      '/proc/x',
      '/sys',
      '/dev',
      '/.dormouse',
      '/usr',
      '/data/',
      '/etc/passwd',
    ])
      expect((await at(path)).body.error?.code, path).toBe('invalid_argument')
    const nested = await sandbox([
      { volume: 'bad', path: '/a' },
      { volume: 'bad', path: '/a/b' },
    ])
    expect(nested.body.error).toMatchObject({
      code: 'invalid_argument',
      message: expect.stringMatching(/volumes.1.path/),
    })
    expect((await sandbox([{ volume: 'unknown', path: '/a' }])).body.error.code).toBe('not_found')
    expect((await server.ok('/v1/sandboxes')).items).toHaveLength(before)
    expect((await remove('bad')).status).toBe(204)
  })

  test('lists have pages, newest first', async () => {
    for (const name of ['a', 'b', 'c']) await volume(name)
    const first = await server.ok('/v1/volumes?limit=2')
    expect(first.items.map(({ name }: { name: string }) => name)).toEqual(['c', 'b'])
    const rest = await server.ok(`/v1/volumes?limit=2&cursor=${first.nextCursor}`)
    expect(rest.items.map(({ name }: { name: string }) => name)).toEqual(['a'])
    for (const name of ['a', 'b', 'c']) await remove(name)
  })

  test('one delete and one create at once: the sandbox has its volume, or is refused', async () => {
    for (let round = 0; round < 5; round++) {
      await volume('raced')
      const [made, removed] = await Promise.all([
        sandbox([{ volume: 'raced', path: '/data' }]),
        remove('raced'),
      ])
      expect([made.status, removed.status].sort()).toEqual(made.status === 201 ? [201, 409] : [204, 404])
      if (made.status === 201) {
        await server.run(made.body.id, 'open("/data/x", "w")')
        await removeSandbox(made.body.id)
        await remove('raced')
      }
    }
  })

  test('after kill -9 sandboxes have their volumes; deletions continue; directories without a record are left alone', async () => {
    await volume('lasting')
    const { body: one } = await sandbox([{ volume: 'lasting', path: '/data' }])
    await server.run(one.id, 'f = open("/data/note", "w"); print(f.write("x"), flush=True)')
    const stray = join(server.factory.stateDir, 'volumes', newVolumeId())
    const halfDeleted = join(server.factory.stateDir, 'volumes', `.deleted-${newVolumeId()}`)
    for (const directory of [stray, halfDeleted]) await mkdir(directory)
    await writeFile(join(stray, 'work'), 'of somebody')
    await server.kill()
    await server.begin()
    expect(await server.run(one.id, 'f.write("y"); f.flush(); print(open("/data/note").read())')).toBe('xy\n')
    expect((await remove('lasting')).body.error.code).toBe('in_use')
    expect(existsSync(join(stray, 'work'))).toBe(true)
    expect(existsSync(halfDeleted)).toBe(false)
    await server.stop()
    await server.begin()
    expect(await server.run(one.id, 'print(open("/data/note").read())')).toBe('xy\n')
    await removeSandbox(one.id)
    expect((await remove('lasting')).status).toBe(204)
  })
})
