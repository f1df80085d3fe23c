import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

const at = (path: string, what = '') => `/v1/volumes/data/files${what}?path=${encodeURIComponent(path)}`
const put = (path: string, body: BodyInit, query = '') =>
  server.call(`${at(path)}&parents=true${query}`, {
    method: 'PUT',
    body,
    headers: { 'content-type': 'application/octet-stream' },
  })
const read = async (path: string, headers = {}) => {
  const response = await server.fetch(at(path), { headers })
  return { status: response.status, text: await response.text() }
}
const names = async (path: string) =>
  (await server.ok(at(path, '/list'))).items.map(({ name }: { name: string }) => name)
const create = (json: object = {}) => server.ok('/v1/volumes', { json: { name: 'data', ...json } })
const mounted = (name: string, readOnly = false) =>
  server.ok('/v1/sandboxes', {
    json: { name, idleTimeoutMs: 0, volumes: [{ volume: 'data', path: '/data', readOnly }] },
  })

describe('files of a volume without a sandbox', () => {
  test('are written, read, listed, moved and deleted; sandboxes see them, and belong to root inside', async () => {
    await create()
    expect((await put('/a/b.txt', 'hello')).body).toMatchObject({ path: '/a/b.txt', sizeBytes: 5, uid: 0 })
    expect(await read('/a/b.txt')).toEqual({ status: 200, text: 'hello' })
    expect(await read('/a/b.txt', { range: 'bytes=1-2' })).toEqual({ status: 206, text: 'el' })
    await put('/a/b.txt', '!', '&append=true')
    await mounted('ada')
    expect(await server.run('ada', 'print(open("/data/a/b.txt").read())')).toBe('hello!\n')
    await server.run('ada', 'open("/data/c", "w").write("from inside")')
    expect(await read('/c')).toEqual({ status: 200, text: 'from inside' })
    expect(await names('/')).toEqual(['a', 'c'])
    await server.ok('/v1/volumes/data/files/move', { json: { from: '/c', to: '/a/d' } })
    await server.ok('/v1/volumes/data/files/mkdir', { json: { path: '/x/y' } })
    expect((await server.call(at('/a'), { method: 'DELETE' })).body.error.code).toBe('directory_not_empty')
    expect((await server.call(`${at('/a')}&recursive=true`, { method: 'DELETE' })).status).toBe(204)
    expect(await names('/')).toEqual(['x'])
  }, 60_000)

  test('links and pipes that code inside makes lead nowhere, also while it exchanges them', async () => {
    await create()
    await mounted('ada')
    await server.run(
      'ada',
      `import os, threading
os.symlink("/etc/hostname", "/data/absolute"); os.symlink("../../../../../../etc/passwd", "/data/up")
os.symlink("/proc/self/root/etc/passwd", "/data/magic"); os.mkfifo("/data/pipe"); os.mkdir("/data/real")
open("/data/real/passwd", "w").write("inside")
os.symlink("/etc", "/data/outside")
def swap():
  while True:
    os.rename("/data/real", "/data/was"); os.rename("/data/outside", "/data/real")
    os.rename("/data/real", "/data/outside"); os.rename("/data/was", "/data/real")
threading.Thread(target=swap, daemon=True).start()`,
    )
    for (const path of ['/absolute', '/up', '/magic', '/../../etc/passwd'])
      expect((await read(path)).status, path).toBe(404)
    expect(JSON.parse((await read('/pipe')).text).error.code).toBe('not_a_file')
    expect((await put('/pipe', 'x', '&append=true')).body.error.code).toBe('not_a_file')
    for (let round = 0; round < 60; round += 1) {
      const { status, text } = await read('/real/passwd')
      if (status === 200) expect(text).toBe('inside')
      const written = await put('/real/new', 'x')
      expect([200, 404, 409]).toContain(written.status)
    }
    expect((await server.fetch('/v1/volumes/data/files?path=relative/../../etc/passwd')).status).toBe(404)
  }, 120_000)

  test('more than a volume may hold is refused, and the file is as it was', async () => {
    await create({ sizeBytes: 16 * 1024 ** 2 })
    await put('/f', 'old')
    const refused = await put('/f', Buffer.alloc(20 * 1024 ** 2))
    expect({ status: refused.status, code: refused.body.error.code }).toEqual({
      status: 429,
      code: 'limit_reached',
    })
    expect(await read('/f')).toEqual({ status: 200, text: 'old' })
    expect(await names('/')).toEqual(['f'])
  }, 60_000)

  test('an upload that is cut off leaves the old file and nothing else', async () => {
    await create()
    await put('/f', 'old')
    const stop = new AbortController()
    const body = new ReadableStream({
      async pull(controller) {
        controller.enqueue(new Uint8Array(300_000))
        await sleep(50)
      },
    })
    const upload = server
      .fetch(at('/f'), {
        ...({ method: 'PUT', body, duplex: 'half', signal: stop.signal } as RequestInit),
        headers: { 'content-type': 'application/octet-stream' },
      })
      .catch(() => {})
    while ((await names('/')).length === 1) await sleep(20)
    stop.abort()
    await upload
    while ((await names('/')).length > 1) await sleep(20)
    expect(await read('/f')).toEqual({ status: 200, text: 'old' })
  }, 60_000)
})

test('a clone has all of it and is its own; a snapshot cannot be written', async () => {
  await create()
  await mounted('ada')
  await server.run(
    'ada',
    `import os
os.makedirs("/data/d"); open("/data/d/f", "w").write("one"); os.link("/data/d/f", "/data/hard")
os.symlink("d/f", "/data/soft"); os.chmod("/data/d/f", 0o640); os.chown("/data/d/f", 1000, 1000)
f = open("/data/sparse", "w"); f.truncate(50_000_000); f.close()`,
  )
  const made = await server.ok('/v1/volumes/data/clone', { json: { name: 'v1', readOnly: true } })
  // Nothing writes: ada has the volume and stands still meanwhile.
  expect(made).toMatchObject({ name: 'v1', readOnly: true, clonedFrom: 'data', oneMoment: true })
  expect(['hard', 'measured']).toContain(made.sizeLimit)
  await server.run('ada', 'open("/data/d/f", "w").write("two")')
  expect(await (await server.fetch('/v1/volumes/v1/files?path=/hard')).text()).toBe('one')
  const { bytes } = await server.ok('/v1/volumes/v1')
  expect(bytes).toBeLessThan(1_000_000)
  const written = await server.call('/v1/volumes/v1/files?path=/x', { method: 'PUT', body: 'x' })
  expect(written.body.error.code).toBe('permission_denied')
  const refused = await server.call('/v1/sandboxes', { json: { volumes: [{ volume: 'v1', path: '/v1' }] } })
  expect(refused.body.error.code).toBe('permission_denied')
  await server.ok('/v1/sandboxes/ada', {
    method: 'PATCH',
    json: { volumes: [{ volume: 'v1', path: '/v1', readOnly: true }] },
  })
  const look = `
import os
s = os.stat("/v1/d/f"); print(oct(s.st_mode & 0o777), s.st_uid, s.st_nlink, os.readlink("/v1/soft"), open("/v1/d/f").read())
try: open("/v1/x", "w")
except OSError as e: print(e.errno == 30)`
  expect(await server.run('ada', look)).toBe('0o640 1000 2 d/f one\nTrue\n')
  expect((await server.call('/v1/volumes/data/clone', { json: { name: 'v1' } })).body.error.code).toBe(
    'name_taken',
  )
}, 60_000)

test('volumes are attached and detached while a sandbox runs and while it sleeps; its memory stays', async () => {
  await create()
  await put('/f', 'content')
  await server.ok('/v1/sandboxes', { json: { name: 'ada', idleTimeoutMs: 0 } })
  await server.run('ada', 'x = 42')
  const change = (volumes: object[]) =>
    server.call('/v1/sandboxes/ada', { method: 'PATCH', json: { volumes } })
  const running = await change([{ volume: 'data', path: '/data' }])
  expect(running.body).toMatchObject({ state: 'running', volumes: [{ volume: 'data', path: '/data' }] })
  expect(await server.run('ada', 'f = open("/data/f"); print(x, f.read())')).toBe('42 content\n')
  // A file that is open on it looks deleted, and the rest continues.
  await change([])
  expect(await server.run('ada', 'import os; print(x, os.path.exists("/data/f"), f.read())')).toBe(
    '42 False \n',
  )
  for (const tier of ['stored', 'frozen']) {
    await server.ok('/v1/sandboxes/ada/standby', { json: { tier } })
    expect((await change([])).body).toMatchObject({ state: 'standby', volumes: [] })
    expect((await change([{ volume: 'data', path: '/elsewhere' }])).body).toMatchObject({ state: 'standby' })
    expect(await server.run('ada', 'print(x, open("/elsewhere/f").read())')).toBe('42 content\n')
  }
  const hides = await change([{ volume: 'data', path: '/usr' }])
  expect(hides.status).toBe(400)
  expect(await server.run('ada', 'print(x, open("/elsewhere/f").read())')).toBe('42 content\n')
  expect((await change([{ volume: 'nothing', path: '/data' }])).body.error.code).toBe('not_found')
  await change([])
  expect((await server.call('/v1/volumes/data', { method: 'DELETE' })).status).toBe(204)
}, 60_000)

test('a shared volume: read-only or writable, and gone for the other key when it is not shared any more', async () => {
  await create()
  await put('/f', 'mine')
  const { id, key } = await server.ok('/v1/keys', { json: { name: 'other', scopes: ['run'] } })
  const other = (path: string, options: object = {}) => server.call(path, { ...options, key })
  expect((await other('/v1/volumes/data')).status).toBe(404)
  await server.ok('/v1/volumes/data/shares/other', { method: 'PUT', json: { access: 'read' } })
  expect((await other('/v1/volumes')).body.items).toMatchObject([
    { name: 'data', access: 'read', sharedWith: [] },
  ])
  expect((await server.ok('/v1/volumes/data')).sharedWith).toEqual([
    { keyId: id, name: 'other', access: 'read' },
  ])
  const mount = (readOnly: boolean) => ({
    json: { name: 'bob', idleTimeoutMs: 0, volumes: [{ volume: 'data', path: '/data', readOnly }] },
  })
  expect((await other('/v1/sandboxes', mount(false))).body.error.code).toBe('permission_denied')
  const written = await other(at('/f'), { method: 'PUT', body: 'theirs' })
  expect(written.body.error.code).toBe('permission_denied')
  expect((await other('/v1/volumes/data', { method: 'DELETE' })).body.error.code).toBe('permission_denied')
  expect((await other('/v1/sandboxes', mount(true))).status).toBe(201)
  const run = async (code: string) => (await other('/v1/sandboxes/bob/run', { json: { code } })).body
  expect((await run('print(open("/data/f").read())')).stdout).toBe('mine\n')
  await server.ok('/v1/volumes/data/shares/other', { method: 'PUT', json: { access: 'write' } })
  expect((await other(at('/f'), { method: 'PUT', body: 'theirs' })).status).toBe(200)
  await server.call(`/v1/volumes/data/shares/${id}`, { method: 'DELETE' })
  while ((await other('/v1/sandboxes/bob')).body.state !== 'standby') await sleep(50)
  expect((await run('print(1)')).error).toMatchObject({ code: 'permission_denied' })
  await other('/v1/sandboxes/bob', { method: 'PATCH', json: { volumes: [] } })
  expect((await run('import os; print(os.listdir("/data"))')).stdout).toBe('[]\n')
}, 60_000)

test('many writers at once lose nothing: sandboxes and the API append to one file and make files of their own', async () => {
  await create()
  const boxes = ['ada', 'bob', 'cyd']
  await Promise.all(boxes.map((name) => mounted(name)))
  const inside = (name: string) => `
import os
for i in range(300):
  fd = os.open("/data/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
  os.write(fd, f"${name} {i}\\n".encode()); os.close(fd)
  open(f"/data/${name}-{i}", "w").write(str(i))`
  const outside = async () => {
    for (let i = 0; i < 30; i += 1) {
      await put('/log', `api ${i}\n`, '&append=true')
      await put(`/api-${i}`, String(i))
      await read(`/ada-${i}`)
    }
  }
  await Promise.all([...boxes.map((name) => server.run(name, inside(name))), outside(), outside2()])
  const lines = (await read('/log')).text.trim().split('\n')
  expect(lines).toHaveLength(3 * 300 + 30 + 30)
  for (const name of boxes)
    expect(lines.filter((line) => line.startsWith(name))).toEqual(
      Array.from({ length: 300 }, (_, i) => `${name} ${i}`),
    )
  expect((await names('/')).length).toBe(1 + 3 * 300 + 30)
  for (const name of boxes)
    expect(
      await server.run(name, 'print(all(open(f"/data/ada-{i}").read() == str(i) for i in range(300)))'),
    ).toBe('True\n')

  async function outside2(): Promise<void> {
    for (let i = 0; i < 30; i += 1) await put('/log', `too ${i}\n`, '&append=true')
  }
}, 120_000)
