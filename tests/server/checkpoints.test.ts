import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSnapshotId } from '@dormouse/contracts'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { powerCut } from './power-cut.ts'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

/** Counts in memory and in a file, without a caller. */
const COUNTER = `
import threading, time
n = 0
def count():
  global n
  while True:
    n += 1
    open("/root/n", "w").write(str(n))
    time.sleep(0.01)
threading.Thread(target=count, daemon=True).start()`

const at = (name: string) => `/v1/sandboxes/${name}`
const snapshots = async () => (await readdir(server.factory.layout.snapshotsDir)).filter(isSnapshotId)

async function ledger(name: string, event: string, cause: string) {
  const { items } = await server.ok(`${at(name)}/ledger?limit=1000`)
  return items.filter((entry: Record<string, string>) => entry.event === event && entry.cause === cause)
}

async function until(what: () => Promise<boolean>): Promise<void> {
  while (!(await what())) await sleep(50)
}

test('a sandbox that never idles is saved every so often; after a power cut it returns by itself', async () => {
  await server.ok('/v1/sandboxes', {
    json: { name: 'ada', idleTimeoutMs: 0, checkpointEveryMs: 1000, metadata: {} },
  })
  await server.run('ada', COUNTER)
  await until(async () => (await ledger('ada', 'snapshot', 'checkpoint')).length >= 3)
  const before = Number(await server.run('ada', 'print(n)'))
  const [first, ...taken] = await ledger('ada', 'snapshot', 'checkpoint')
  expect(first).toMatchObject({ latencyMs: expect.any(Number), bytes: expect.any(Number) })
  const { checkpoint } = await server.ok(`${at('ada')}/why`)
  expect(checkpoint).toMatchObject({ pauseMs: expect.any(Number), nextAt: expect.any(String) })
  expect((await server.ok(at('ada'))).state).toBe('running')
  // Older ones are removed as soon as a newer one is on disk.
  await until(async () => (await snapshots()).length <= 2)
  await server.kill()
  await powerCut(server.factory)
  await server.begin()
  // Looking wakes nothing: it woke because it has checkpoints.
  await until(async () => (await ledger('ada', 'woke', 'checkpoint')).length === 1)
  const { lostSince } = await server.ok(at('ada'))
  expect(Date.parse(lostSince)).toBeGreaterThanOrEqual(Date.parse(taken[0].at) - 1000)
  expect(await ledger('ada', 'lost', 'host ended')).toHaveLength(1)
  const after = Number(await server.run('ada', 'print(n)'))
  expect(after).toBeGreaterThan(0)
  await until(async () => Number(await server.run('ada', 'print(n)')) > Math.max(after, before))
}, 120_000)

test('memory and files of a checkpoint belong together, whenever the power is cut', async () => {
  const names = ['ada', 'bob', 'cyd']
  for (const name of names) {
    await server.ok('/v1/sandboxes', { json: { name, idleTimeoutMs: 0, checkpointEveryMs: 1000 } })
    await server.run(name, COUNTER)
  }
  for (let round = 0; round < 4; round += 1) {
    await sleep(900 + round * 377)
    await server.kill()
    await powerCut(server.factory)
    await server.begin()
    for (const name of names) {
      const { lostSince } = await server.ok(at(name))
      // A checkpoint that was complete and not recorded yet: it had not run since.
      const isComplete = (await ledger(name, 'stored', 'server start')).length > 0
      expect(lostSince !== undefined || isComplete).toBe(true)
      const code =
        'f = open("/root/n").read(); print(abs(n - int(f or n)) <= 2 if "n" in globals() else "new")'
      const found = (await server.call(`${at(name)}/run`, { json: { code } })).body
      // Before its first checkpoint there is nothing to return to.
      if (found.exitCode !== 0 || found.stdout === 'new\n') await server.run(name, COUNTER)
      else expect(found.stdout).toBe('True\n')
    }
  }
}, 180_000)

test('what cannot be saved is not disturbed, and `why` and the ledger say what prevents it', async () => {
  await server.ok('/v1/sandboxes', { json: { name: 'bob', idleTimeoutMs: 0, checkpointEveryMs: 1000 } })
  await server.run('bob', `${COUNTER}\nimport os\nfd = os.eventfd(1, os.EFD_SEMAPHORE)`)
  await until(async () => (await server.ok(`${at('bob')}/why`)).checkpoint.refused !== undefined)
  const { checkpoint } = await server.ok(`${at('bob')}/why`)
  expect(checkpoint.refused).toMatch(/eventfd/i)
  expect(Date.parse(checkpoint.nextAt)).toBeGreaterThan(Date.now() + 2_000)
  expect(await ledger('bob', 'refused', 'checkpoint')).toHaveLength(1)
  const n = Number(await server.run('bob', 'print(n)'))
  await until(async () => Number(await server.run('bob', 'print(n)')) > n)
  await server.run('bob', 'os.close(fd)')
  // The next attempt waits for its time, unless the policy changes nothing about that.
  await until(async () => (await ledger('bob', 'snapshot', 'checkpoint')).length > 0)
  expect((await server.ok(`${at('bob')}/why`)).checkpoint).not.toHaveProperty('refused')
}, 60_000)

test('a power cut before a checkpoint is on disk leads back to what there was before', async () => {
  const { snapshotsDir } = server.factory.layout
  await server.ok('/v1/sandboxes', { json: { name: 'cyd', idleTimeoutMs: 0 } })
  await server.run('cyd', 'x = "saved"')
  await server.ok(`${at('cyd')}/snapshots`, { json: { name: 'first' } })
  const [former] = await snapshots()
  await server.run('cyd', 'x = "changed"')
  await server.ok(at('cyd'), { method: 'PATCH', json: { checkpointEveryMs: 1000 } })
  await until(async () => (await ledger('cyd', 'snapshot', 'checkpoint')).length > 0)
  await server.kill()
  await powerCut(server.factory)
  for (const id of await snapshots())
    if (id !== former)
      await writeFile(join(snapshotsDir, `.unsynced-${id}-00000000-0000-4000-8000-000000000000`), '')
  await server.begin()
  expect(await server.run('cyd', 'print(x)')).toBe('saved\n')
  expect((await server.ok(at('cyd'))).lostSince).toBeDefined()
}, 60_000)

test('runs continue over a checkpoint, and their output is complete', async () => {
  await server.ok('/v1/sandboxes', { json: { name: 'dan', checkpointEveryMs: 1000 } })
  const code = 'import time\nfor i in range(400):\n  print(i)\n  time.sleep(0.01)'
  const lines = (await server.run('dan', code)).trim().split('\n').map(Number)
  expect(lines).toEqual(Array.from({ length: 400 }, (_, index) => index))
  expect((await ledger('dan', 'snapshot', 'checkpoint')).length).toBeGreaterThan(0)
}, 60_000)

test('too short an interval is refused', async () => {
  const { status, body } = await server.call('/v1/sandboxes', { json: { checkpointEveryMs: 999 } })
  expect({ status, code: body.error.code }).toEqual({ status: 400, code: 'invalid_argument' })
})
