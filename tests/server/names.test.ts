import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

const create = (json: object) => server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0, ...json } })
const snapshot = (of: string, name: string) => server.ok(`/v1/sandboxes/${of}/snapshots`, { json: { name } })
const rollback = (of: string, to: string) =>
  server.call(`/v1/sandboxes/${of}/rollback`, { json: { snapshotId: to } })
const fork = async (of: string): Promise<string> =>
  (await server.ok(`/v1/sandboxes/${of}/fork`, { json: {} })).children[0].id
const say = (of: string) => server.run(of, 'print(x)')
const errorOf = ({ body }: { body: { error: { code: string } } }) => body.error.code

describe('the name of a snapshot', () => {
  test('is taken wherever an id is, and is unique in its sandbox', async () => {
    const { id } = await create({ name: 'box' })
    await create({ name: 'other' })
    await server.run('box', 'x = 1')
    const saved = await snapshot('box', 'first')
    await server.run('box', 'x = 2')
    const again = await server.call('/v1/sandboxes/box/snapshots', { json: { name: 'first' } })
    expect(again).toMatchObject({ status: 409, body: { error: { code: 'name_taken' } } })
    expect((await snapshot('other', 'first')).id).not.toBe(saved.id)

    for (const ref of [saved.id, `${id}/first`, 'box/first'])
      expect((await server.ok(`/v1/snapshots/${encodeURIComponent(ref)}`)).id, ref).toBe(saved.id)
    expect(await server.ok(`/v1/snapshots/${encodeURIComponent('box/first')}/verify`, { json: {} })).toEqual({
      id: saved.id,
      ok: true,
    })
    expect((await rollback('box', 'first')).status).toBe(200)
    expect(await say('box')).toBe('1\n')
    expect(errorOf(await rollback('box', 'second'))).toBe('not_found')
    expect(errorOf(await rollback('box', 'other/first'))).toBe('conflict')

    const made = await server.ok('/v1/templates', { json: { name: 'warm', snapshotId: 'box/first' } })
    expect(made.snapshotId).toBe(saved.id)
    await server.ok('/v1/templates/warm', { method: 'DELETE' })
    // A name is free again after the snapshot with it was deleted.
    const gone = await server.call('/v1/snapshots/box%2Ffirst', { method: 'DELETE' })
    expect(gone.status).toBe(204)
    expect((await snapshot('box', 'first')).name).toBe('first')
  })

  test('of a sleeping sandbox that was rolled back to a fork is its own', async () => {
    await create({ name: 'parent' })
    const child = await fork('parent')
    await server.run(child, 'x = "child"')
    await snapshot(child, 'done')
    await server.ok('/v1/sandboxes/parent/standby', { json: { tier: 'stored' } })
    expect((await rollback('parent', `${child}/done`)).body.state).toBe('standby')
    expect((await snapshot('parent', 'mine')).name).toBe('mine')
    expect((await rollback('parent', 'mine')).status).toBe(200)
    expect(await say('parent')).toBe('child\n')
  })
})

describe('a rollback along the lineage', () => {
  test('goes to snapshots of forks and of what it was forked from, at any depth, also of deleted ones', async () => {
    await create({ name: 'root' })
    await server.run('root', 'x = "root"')
    await snapshot('root', 'at-root')
    const child = await fork('root')
    const grandchild = await fork(child)
    await server.run(grandchild, 'x = "grandchild"')
    await snapshot(grandchild, 'deep')
    expect((await rollback(grandchild, 'root/at-root')).status).toBe(200)
    expect(await say(grandchild)).toBe('root\n')
    for (const one of [child, grandchild]) await server.ok(`/v1/sandboxes/${one}`, { method: 'DELETE' })
    await server.kill()
    await server.begin()
    expect((await rollback('root', `${grandchild}/deep`)).status).toBe(200)
    expect(await say('root')).toBe('grandchild\n')
    // It wakes from there, also after another restart.
    await server.ok('/v1/sandboxes/root/standby', { json: { tier: 'stored' } })
    await server.kill()
    await server.begin()
    expect(await say('root')).toBe('grandchild\n')
  })

  test('does not go to a sibling', async () => {
    await create({ name: 'root' })
    const [one, two] = [await fork('root'), await fork('root')]
    await snapshot(one, 'saved')
    expect(errorOf(await rollback(two, `${one}/saved`))).toBe('conflict')
  })
})

describe('promote', () => {
  test('the parent continues as the fork, with its own id and name, and the fork is gone', async () => {
    const { id } = await create({ name: 'root', metadata: { a: 'b' } })
    await server.run('root', 'x = "root"')
    const child = await fork('root')
    await server.run(child, 'x = "winner"; open("/root/f", "w").write("w")')
    const parent = await server.ok(`/v1/sandboxes/${child}/promote`, { json: {} })
    expect(parent).toMatchObject({ id, name: 'root', metadata: { a: 'b' }, state: 'running' })
    expect(await server.run('root', 'print(x, open("/root/f").read())')).toBe('winner w\n')
    expect((await server.call(`/v1/sandboxes/${child}`)).status).toBe(404)
    // What it continues from is all that is left of the fork, and goes when the parent sleeps.
    await server.ok('/v1/sandboxes/root/standby', { json: { tier: 'stored' } })
    await server.kill()
    await server.begin()
    expect(await say('root')).toBe('winner\n')
    const { items } = await server.ok('/v1/sandboxes/root/ledger')
    expect(items).toContainEqual(
      expect.objectContaining({ event: 'rolled_back', cause: `promotion of ${child}` }),
    )
  })

  test('a sleeping fork is not woken, and stays with `keep`; a sleeping parent stays asleep', async () => {
    await create({ name: 'root' })
    await server.run('root', 'x = "root"')
    const child = await fork('root')
    await server.run(child, 'x = "winner"')
    for (const one of ['root', child])
      await server.ok(`/v1/sandboxes/${one}/standby`, { json: { tier: 'stored' } })
    const parent = await server.ok(`/v1/sandboxes/${child}/promote`, { json: { keep: true } })
    expect(parent).toMatchObject({ name: 'root', state: 'standby' })
    expect((await server.ok(`/v1/sandboxes/${child}`)).state).toBe('standby')
    expect([await say('root'), await say(child)]).toEqual(['winner\n', 'winner\n'])
  })

  test('is refused without a parent', async () => {
    await create({ name: 'root' })
    const child = await fork('root')
    expect(errorOf(await server.call('/v1/sandboxes/root/promote', { json: {} }))).toBe('conflict')
    await server.ok('/v1/sandboxes/root', { method: 'DELETE' })
    expect(errorOf(await server.call(`/v1/sandboxes/${child}/promote`, { json: {} }))).toBe('conflict')
    expect((await server.ok(`/v1/sandboxes/${child}`)).state).toBe('running')
  })
})

describe('a sandbox from a snapshot', () => {
  test('has the snapshot as its head, starts as it was, and can be promoted', async () => {
    await create({ name: 'root', limits: { memoryBytes: 768 * 1024 ** 2 } })
    await server.run('root', 'x = [1]')
    const saved = await snapshot('root', 'ready')
    await server.run('root', 'x.append(2)')
    const made = await create({ name: 'second', snapshot: 'root/ready', env: { FROM: 'create' } })
    expect(made).toMatchObject({ name: 'second', state: 'running', headSnapshotId: saved.id })
    expect(made.limits.memoryBytes).toBe(768 * 1024 ** 2)
    expect(await say('second')).toBe('[1]\n')
    expect(await server.run('second', 'import os; print(os.environ.get("FROM"))')).toBe('create\n')
    // The snapshot is its head: deleting it only frees the name.
    expect((await server.call(`/v1/snapshots/${saved.id}`, { method: 'DELETE' })).status).toBe(204)
    await server.ok('/v1/sandboxes/second/standby', { json: { tier: 'stored' } })
    expect(await say('second')).toBe('[1]\n')
    await server.run('second', 'x = "promoted"')
    expect(await server.ok('/v1/sandboxes/second/promote', { json: {} })).toMatchObject({ name: 'root' })
    expect(await say('root')).toBe('promoted\n')
  })

  test('is refused for what does not exist, belongs to another key, or comes with a template', async () => {
    await create({ name: 'root' })
    await snapshot('root', 'ready')
    const refused = async (json: object, key = server.key) =>
      errorOf(await server.call('/v1/sandboxes', { json, key }))
    const { key } = await server.ok('/v1/keys', { json: { name: 'stranger', scopes: ['run'] } })
    const { id } = await server.ok('/v1/snapshots/root%2Fready')
    expect(await refused({ snapshot: 'root/never' })).toBe('not_found')
    expect(await refused({ snapshot: 'ready' })).toBe('invalid_argument')
    expect(await refused({ snapshot: id, template: 'python' })).toBe('invalid_argument')
    expect(await refused({ snapshot: id }, key)).toBe('not_found')
    expect(await refused({ snapshot: 'root/ready' }, key)).toBe('not_found')
  })
})
