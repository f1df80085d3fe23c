import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

const volumes = [{ volume: 'shared', path: '/data' }]
const LOCK = `
import fcntl
f = open("/data/f", "a+")
f.write("x")
f.flush()
fcntl.flock(f, fcntl.LOCK_EX)`
const TRY = `
import fcntl
g = open("/data/f", "r+")
try:
  fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)
  print("free")
except OSError:
  print("held")`

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 0 })
})
beforeEach(async () => {
  await server.ok('/v1/volumes', { json: { name: 'shared' } })
  for (const name of ['ada', 'bob']) await server.ok('/v1/sandboxes', { json: { name, volumes } })
  await server.run('ada', LOCK)
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

const at = (name: string) => `/v1/sandboxes/${name}`
const sleep = (name: string, tier: string) => server.ok(`${at(name)}/standby`, { json: { tier } })
/** Whether another sandbox can lock the file. It gives the lock back at once. */
const tried = (name: string) => server.run(name, `${TRY}\ng.close()`)
const wake = async (name: string) => {
  const { status, body } = await server.call(`${at(name)}/resume`, { json: {} })
  return { status, error: body.error }
}

test('a sandbox with a lock on a volume sleeps; a frozen one keeps the lock, a stored one gets it back', async () => {
  expect(await tried('bob')).toBe('held\n')
  await sleep('ada', 'frozen')
  expect(await tried('bob')).toBe('held\n')
  expect((await wake('ada')).status).toBe(200)
  await sleep('ada', 'stored')
  expect(await tried('bob')).toBe('free\n')
  expect((await wake('ada')).status).toBe(200)
  expect(await tried('bob')).toBe('held\n')
}, 60_000)

test('a lock on a deleted file concerns no other sandbox: it outlives a sleep', async () => {
  await server.run('ada', 'import os\nos.unlink("/data/f")')
  for (const tier of ['frozen', 'stored']) {
    await sleep('ada', tier)
    expect((await wake('ada')).status).toBe(200)
    const again =
      'h = open(f"/proc/self/fd/{f.fileno()}", "r+")\nfcntl.flock(h, fcntl.LOCK_EX | fcntl.LOCK_NB)'
    const said = await server.run(
      'ada',
      `try:\n  ${again.replace('\n', '\n  ')}\nexcept OSError as e: print(e.strerror)`,
    )
    expect(said).toBe('Resource temporarily unavailable\n')
  }
}, 60_000)

test('a wake is refused while another sandbox holds the lock, and after the file was changed; nothing is lost', async () => {
  await sleep('ada', 'stored')
  await server.run('bob', TRY)
  expect(await wake('ada')).toMatchObject({
    status: 409,
    error: {
      code: 'in_use',
      message: expect.stringContaining('/data/f'),
      hint: expect.stringMatching(/Wait/),
    },
  })
  expect((await server.ok(at('ada'))).state).toBe('standby')
  await server.run('bob', 'g.close()')
  expect(await server.run('ada', 'f.seek(0); print(f.read())')).toBe('x\n')
  await sleep('ada', 'stored')
  await server.run('bob', 'open("/data/f", "a").write("y")')
  expect(await wake('ada')).toMatchObject({
    status: 409,
    error: { code: 'conflict', message: expect.stringContaining('changed') },
  })
  await server.ok(at('ada'), { method: 'PATCH', json: { volumes: [] } })
  expect(await server.run('ada', 'print(f.name)')).toBe('/data/f\n')
}, 60_000)

test('a rollback to a snapshot with a lock is refused while any sandbox holds the lock, and gives it back otherwise', async () => {
  const { id } = await server.ok(`${at('ada')}/snapshots`, { json: {} })
  const rollback = () => server.call(`${at('ada')}/rollback`, { json: { snapshotId: id } })
  const refused = {
    status: 409,
    body: { error: { code: 'in_use', hint: expect.stringContaining('put it to standby in tier `stored`') } },
  }
  await server.run('ada', 'later = 1')
  expect(await rollback()).toMatchObject(refused)
  expect(await server.run('ada', 'print(later)')).toBe('1\n')
  await sleep('ada', 'stored')
  expect((await rollback()).status).toBe(200)
  expect(await server.run('ada', 'print("later" in globals())')).toBe('False\n')
  expect(await tried('bob')).toBe('held\n')
  await server.run('ada', 'f.close(); later = 2')
  expect(await server.run('bob', TRY)).toBe('free\n')
  expect(await rollback()).toMatchObject(refused)
  expect(await server.run('ada', 'print(later)')).toBe('2\n')
  await server.run('bob', 'g.close()')
  expect((await rollback()).status).toBe(200)
  expect(await tried('bob')).toBe('held\n')
}, 60_000)

test('a fork with a lock for writing is refused with the path and what to do, and the sandbox keeps its lock', async () => {
  const { status, body } = await server.call(`${at('ada')}/fork`, { json: { count: 1 } })
  expect(status).toBe(409)
  expect(body.error).toMatchObject({ message: expect.stringContaining('lock for writing on /data/f') })
  expect(body.error.hint).not.toBe('')
  expect(await tried('bob')).toBe('held\n')
}, 60_000)

/** Counts in two files under locks. `done` counts what was written while the volume was there. */
const COUNT = `
import fcntl, os, threading, time
done, stop = {"flock": 0, "lockf": 0}, threading.Event()
def count(kind):
    path = f"/data/{kind}"
    while not stop.is_set():
        try: fd = os.open(path, os.O_RDWR)
        except OSError: return
        getattr(fcntl, kind)(fd, fcntl.LOCK_EX)
        number = int(os.pread(fd, 20, 0))
        time.sleep(0.001)
        os.pwrite(fd, b"%020d" % (number + 1), 0)
        if os.path.exists(path): done[kind] += 1
        os.close(fd)
        time.sleep(0.01)
threads = [threading.Thread(target=count, args=(kind,), daemon=True) for kind in done]
for each in threads: each.start()`

test('no write under a lock is lost while three sandboxes count and sleep', async () => {
  const boxes = ['ada', 'bob', 'cyd']
  await server.ok('/v1/sandboxes', { json: { name: 'cyd', volumes } })
  await server.run('bob', 'for kind in ("flock", "lockf"): open(f"/data/{kind}", "w").write("0" * 20)')
  for (const name of boxes) await server.run(name, COUNT)
  /** Boxes that slept with a lock, and whose file others changed meanwhile. */
  const detached = new Set<string>()
  const sleepAndWake = async (name: string, tier: string) => {
    if (detached.has(name)) return
    await sleep(name, tier)
    for (;;) {
      const { status, error } = await wake(name)
      if (status === 200) return
      expect(['in_use', 'conflict']).toContain(error.code)
      if (error.code === 'in_use') continue
      detached.add(name)
      await server.ok(at(name), { method: 'PATCH', json: { volumes: [] } })
    }
  }
  const numbers = async (name: string, expression: string) =>
    JSON.parse(await server.run(name, `import json; print(json.dumps(${expression}))`)) as number[]
  for (let round = 0; round < 4; round += 1)
    await Promise.all(
      boxes.map((name, index) => sleepAndWake(name, (round + index) % 2 ? 'stored' : 'frozen')),
    )
  await Promise.all(boxes.map((name) => server.run(name, 'stop.set(); [each.join(30) for each in threads]')))
  const done = await Promise.all(boxes.map((name) => numbers(name, 'list(done.values())')))
  await server.ok('/v1/sandboxes', { json: { name: 'reader', volumes } })
  const counted = await numbers(
    'reader',
    '[int(open(f"/data/{kind}").read()) for kind in ("flock", "lockf")]',
  )
  for (const [kind, count] of counted.entries()) {
    const acknowledged = done.reduce((sum, each) => sum + (each[kind] ?? 0), 0)
    expect(acknowledged).toBeGreaterThan(boxes.length)
    // A box may have slept between its last write and `done`.
    expect(count - acknowledged).toBeGreaterThanOrEqual(0)
    expect(count - acknowledged).toBeLessThanOrEqual(detached.size)
  }
}, 120_000)
