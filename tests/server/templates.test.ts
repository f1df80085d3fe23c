import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

/** More than the least of a build. */
const DEFAULT_MEMORY_BYTES = 3 * 1024 ** 3

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ defaults: { memoryBytes: DEFAULT_MEMORY_BYTES } })
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

const remove = (path: string) => server.call(path, { method: 'DELETE' })

describe('a template from a snapshot', () => {
  test('starts sandboxes with its variables, files and processes, outlives its source, and stays while it is needed', async () => {
    await server.ok('/v1/sandboxes', { json: { name: 'source', idleTimeoutMs: 0 } })
    await server.run('source', 'x = [1, 2, 3]\nopen("/root/a", "w").write("b")')
    const snapshot = await server.ok('/v1/sandboxes/source/snapshots', { json: { name: 'ready' } })
    expect(
      await server.ok('/v1/templates', { json: { name: 'warm', snapshotId: snapshot.id } }),
    ).toMatchObject({
      ...{ name: 'warm', state: 'ready', source: 'snapshot', snapshotId: snapshot.id },
    })
    expect(
      (await server.call('/v1/templates', { json: { name: 'warm', snapshotId: snapshot.id } })).body.error
        .code,
    ).toBe('name_taken')
    expect(
      (await server.call('/v1/templates', { json: { name: 'python', snapshotId: snapshot.id } })).body.error
        .code,
    ).toBe('name_taken')
    await server.run('source', 'x = "changed"')
    expect((await remove('/v1/sandboxes/source')).status).toBe(204)
    expect((await remove(`/v1/snapshots/${snapshot.id}`)).status).toBeLessThan(300)

    const json = { name: 'child', template: 'warm', env: { FROM: 'create' }, idleTimeoutMs: 0 }
    const child = await server.ok('/v1/sandboxes', { json })
    expect(child).toMatchObject({ template: 'warm', state: 'running' })
    expect(await server.run('child', 'print(x, open("/root/a").read())')).toBe('[1, 2, 3] b\n')
    expect(await server.run('child', 'import os; print(os.environ.get("FROM"))')).toBe('create\n')
    expect((await remove('/v1/templates/warm')).body.error.code).toBe('in_use')
    await server.ok('/v1/sandboxes/child/standby', { json: { tier: 'stored' } })
    expect(await server.run('child', 'print(x)')).toBe('[1, 2, 3]\n')
    expect((await server.ok('/v1/run', { json: { code: 'print(x)', template: 'warm' } })).stdout).toBe(
      '[1, 2, 3]\n',
    )
    await server.ok('/v1/sandboxes/child', { method: 'DELETE' })
    expect((await remove('/v1/templates/warm')).status).toBe(204)
    expect((await server.call('/v1/sandboxes', { json: { template: 'warm' } })).body.error.code).toBe(
      'template_not_found',
    )
    expect((await server.ok('/v1/snapshots')).items).toEqual([])
    expect(await server.factory.traces()).toEqual([])
  })

  test('survives a restart of the server', async () => {
    await server.ok('/v1/sandboxes', { json: { name: 'source' } })
    await server.run('source', 'y = 5')
    const { id } = await server.ok('/v1/sandboxes/source/snapshots', { json: {} })
    await server.ok('/v1/templates', { json: { name: 'kept', snapshotId: id } })
    await server.ok('/v1/sandboxes/source', { method: 'DELETE' })
    await server.kill()
    await server.begin()
    await server.ok('/v1/sandboxes', { json: { name: 'again', template: 'kept' } })
    expect(await server.run('again', 'print(y)')).toBe('5\n')
    await server.ok('/v1/sandboxes/again', { method: 'DELETE' })
    expect((await remove('/v1/templates/kept')).status).toBe(204)
  })
})

test('files alone: a sandbox starts anew with them, and with the environment that it was created with', async () => {
  await server.ok('/v1/sandboxes', { json: { name: 'files', env: { FROM: 'create' }, idleTimeoutMs: 0 } })
  const at = '/v1/sandboxes/files'
  await server.run('files', 'z = 1\nopen("/root/kept", "w").write("k")')
  const { id, kind } = await server.ok(`${at}/snapshots`, { json: { kind: 'files' } })
  expect(kind).toBe('files')
  const look = 'import os; print("z" in globals(), open("/root/kept").read(), os.environ.get("FROM"))'
  expect(await server.run('files', look)).toBe('True k create\n')
  await server.ok(`${at}/rollback`, { json: { snapshotId: id } })
  expect(await server.run('files', look)).toBe('False k create\n')
  await server.ok(`${at}/standby`, { json: { tier: 'stored' } })
  await server.ok(`${at}/rollback`, { json: { snapshotId: id } })
  expect(await server.run('files', look)).toBe('False k create\n')
  await server.ok('/v1/templates', { json: { name: 'tree', snapshotId: id } })
  await server.ok('/v1/sandboxes', { json: { name: 'fresh', template: 'tree', env: { FROM: 'anew' } } })
  expect(await server.run('fresh', look)).toBe('False k anew\n')
  for (const name of ['fresh', 'files']) await server.ok(`/v1/sandboxes/${name}`, { method: 'DELETE' })
  expect((await remove('/v1/templates/tree')).status).toBe(204)
})

test('templates of the host stay, and a key that may only read builds none', async () => {
  expect((await remove('/v1/templates/python')).body.error.code).toBe('in_use')
  const { key } = await server.ok('/v1/keys', { json: { name: 'reader', scopes: ['read'] } })
  const refused = await server.call('/v1/templates', { json: { name: 'mine', commands: ['true'] }, key })
  expect(refused.body.error.code).toBe('scope_missing')
  expect((await server.ok('/v1/templates')).items).toHaveLength(1)
})

test('a build has as much memory as a sandbox that names none, so that what it starts has room', async () => {
  const json = { name: 'roomy', commands: ['sleep 1000'] }
  await server.ok('/v1/templates', { json })
  const find = async () => (await server.ok('/v1/sandboxes')).items[0]
  await expect.poll(find, { timeout: 60_000 }).toBeDefined()
  expect((await find()).limits.memoryBytes).toBe(DEFAULT_MEMORY_BYTES)
  expect((await remove('/v1/templates/roomy')).status).toBe(204)
})
