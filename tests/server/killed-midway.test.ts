import { execFile } from 'node:child_process'
import { watch } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isSnapshotId } from '@dormouse/contracts'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { powerCut } from './power-cut.ts'
import { type Fault, ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterAll(() => server?.cleanUp())
afterEach(async () => {
  await server.clear()
  expect(await server.factory.traces()).toEqual([])
  expect((await readdir(server.factory.layout.snapshotsDir)).filter(isSnapshotId)).toEqual([])
})

/** Saving it takes long enough for a kill in the middle: shared memory is not moved ahead of the dump. */
const LARGE = 'import mmap, os\nballast = mmap.mmap(-1, 100 << 20); ballast.write(os.urandom(100 << 20))'

async function create(name: string, more: object = {}): Promise<void> {
  await server.ok('/v1/sandboxes', { json: { name, idleTimeoutMs: 0, ...more } })
}

/** Something in memory and something in a file. */
const set = (name: string, value: string) =>
  server.run(name, `x = "${value}"; open("/root/f", "w").write("${value}")`)
const get = (name: string) =>
  server.run(name, 'print(globals().get("x"), open("/root/f").read())').then((text) => text.trim())
const look = (name: string) => server.ok(`/v1/sandboxes/${name}`)
const store = (name: string) => server.ok(`/v1/sandboxes/${name}/standby`, { json: { tier: 'stored' } })

const snapshotsOf = async (name: string, kind: string) =>
  (await server.ok(`/v1/snapshots?sandboxId=${(await look(name)).id}`)).items.filter(
    (snapshot: { kind: string }) => snapshot.kind === kind,
  )

/** On disk, with nothing lost. */
async function expectStored(name: string): Promise<void> {
  const { state, tier, lostSince } = await look(name)
  expect({ state, tier, lostSince }).toEqual({ state: 'standby', tier: 'stored' })
}

/** Asks for something that will not be answered: the server is killed at the moment that `until` waits for. */
async function killDuring(path: string, json: object, until: () => Promise<void>): Promise<void> {
  const asked = server.call(path, { json }).catch(() => 'cut off')
  await until()
  await server.kill()
  await asked
}

async function killAtFault(fault: Fault, path: string, json: object): Promise<void> {
  await server.kill()
  await server.begin([fault])
  await killDuring(path, json, () => server.struck())
}

/** Resolves when a name appears among the snapshots: that of one being taken, or of one that is finished. */
function appears(isIt: (name: string) => boolean): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(server.factory.layout.snapshotsDir, (_, name) => {
      if (name === null || !isIt(name)) return
      watcher.close()
      resolve()
    })
  })
}

describe('a power cut', () => {
  test('in the middle of a standby: files are kept, and it says what is lost', async () => {
    for (const name of ['young', 'older']) await create(name)
    await set('older', 'saved')
    await store('older')
    for (const name of ['young', 'older']) {
      await set(name, 'late')
      await server.run(name, LARGE)
      const begun = appears((file) => file.startsWith('.taking-'))
      await killDuring(`/v1/sandboxes/${name}/standby`, { tier: 'stored' }, () => begun)
      await powerCut(server.factory)
      await server.begin()
      expect(await look(name)).toMatchObject({ state: 'standby', lostSince: expect.any(String) })
    }
    expect(await get('young')).toBe('None late')
    expect(await get('older')).toBe('saved saved')
    const [files] = await snapshotsOf('older', 'files')
    await server.ok('/v1/sandboxes/older/rollback', { json: { snapshotId: files.id } })
    expect(await get('older')).toBe('None late')
  })

  test('after which the next start is cut off, too: files are still kept', async () => {
    for (const name of ['young', 'older', 'asleep', 'iced']) await create(name)
    for (const name of ['older', 'asleep', 'iced']) await set(name, 'saved')
    for (const name of ['older', 'asleep']) await store(name)
    await server.ok('/v1/sandboxes/iced/standby', { json: { tier: 'frozen' } })
    for (const name of ['young', 'older']) await set(name, 'late')
    await server.kill()
    await powerCut(server.factory)
    await server.begin([{ method: 'adoptBurrows', when: 'after', does: 'hang' }])
    await server.kill()
    await server.begin()
    for (const name of ['asleep', 'iced']) {
      expect((await look(name)).lostSince).toBeUndefined()
      expect(await snapshotsOf(name, 'files')).toEqual([])
      expect(await get(name)).toBe('saved saved')
    }
    for (const name of ['young', 'older'])
      expect(await look(name)).toMatchObject({ state: 'standby', lostSince: expect.any(String) })
    expect(await get('young')).toBe('None late')
    const [files] = await snapshotsOf('older', 'files')
    await server.ok('/v1/sandboxes/older/rollback', { json: { snapshotId: files.id } })
    expect(await get('older')).toBe('None late')
  })

  test('and no room for files at the next start: they are kept at the one after', async () => {
    await create('one')
    await set('one', 'late')
    await server.kill()
    await powerCut(server.factory)
    const { snapshotsDir } = server.factory.layout
    // The root of the file system is its only inode.
    await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=1', 'tmpfs', snapshotsDir])
    try {
      await server.begin()
      expect(await look('one')).toMatchObject({ state: 'standby', lostSince: expect.any(String) })
      await server.kill()
    } finally {
      await promisify(execFile)('umount', [snapshotsDir])
    }
    await server.begin()
    expect(await look('one')).toMatchObject({ state: 'standby', lostSince: expect.any(String) })
    expect(await get('one')).toBe('None late')
  })

  test('when a snapshot has been taken and not written down: nothing is lost', async () => {
    await create('one', { ephemeral: true })
    await set('one', 'late')
    const fault = { method: 'snapshot', when: 'after', does: 'hang' } as const
    await killAtFault(fault, '/v1/sandboxes/one/snapshots', { name: 'kept' })
    await powerCut(server.factory)
    await server.begin()
    await expectStored('one')
    expect(await get('one')).toBe('late late')
    expect(await snapshotsOf('one', 'files')).toEqual([])
  })

  test('when the snapshot of a fork has just been finished: nothing is lost, and there is no child', async () => {
    await create('one', { ephemeral: true })
    await set('one', 'late')
    const finished = appears(isSnapshotId)
    await killDuring('/v1/sandboxes/one/fork', { count: 1 }, () => finished)
    await powerCut(server.factory)
    await server.begin()
    await expectStored('one')
    expect(await get('one')).toBe('late late')
    expect((await server.ok('/v1/sandboxes')).items).toHaveLength(1)
  })
})

describe('kill -9 of the server', () => {
  test('when a snapshot has just been finished: the sandbox comes back from it', async () => {
    await create('one', { ephemeral: true })
    await set('one', 'late')
    await server.run('one', LARGE)
    const finished = appears(isSnapshotId)
    await killDuring('/v1/sandboxes/one/snapshots', { name: 'kept' }, () => finished)
    await server.begin()
    expect((await look('one')).lostSince).toBeUndefined()
    expect(await get('one')).toBe('late late')
  })

  test('when a snapshot has just been finished and nothing says that it was begun: the sandbox comes back from it', async () => {
    await create('one')
    await set('one', 'early')
    await store('one')
    await set('one', 'late')
    const fault = { method: 'snapshot', when: 'after', does: 'hang' } as const
    await killAtFault(fault, '/v1/sandboxes/one/standby', { tier: 'stored' })
    const db = new DatabaseSync(join(server.factory.stateDir, 'state.db'))
    db.exec("DELETE FROM intents; UPDATE sandboxes SET state = 'running'")
    db.close()
    await server.begin()
    await expectStored('one')
    expect(await get('one')).toBe('late late')
  })

  test('after a standby that failed when its snapshot was on disk: the sandbox is asleep there', async () => {
    await create('one')
    await set('one', 'early')
    await store('one')
    await set('one', 'late')
    await server.kill()
    await server.begin([{ method: 'snapshot', when: 'after', does: 'fail' }])
    expect((await server.call('/v1/sandboxes/one/standby', { json: { tier: 'stored' } })).status).toBe(200)
    await expectStored('one')
    expect(await get('one')).toBe('late late')
    await server.kill()
    await server.begin()
    expect((await look('one')).lostSince).toBeUndefined()
    expect(await get('one')).toBe('late late')
  })

  test.each(['before', 'after'] as const)(
    'in the middle of a rollback, %s the older state is there: it is as it was before',
    async (when) => {
      await create('one')
      await set('one', 'early')
      const { id } = await server.ok('/v1/sandboxes/one/snapshots', { json: { name: 'early' } })
      await set('one', 'late')
      const fault = { method: 'restore', when, does: 'hang' } as const
      await killAtFault(fault, '/v1/sandboxes/one/rollback', { snapshotId: id })
      await server.begin()
      expect(await look('one')).toMatchObject({ state: 'running', headSnapshotId: id })
      expect(await get('one')).toBe('late late')
      await server.ok('/v1/sandboxes/one/rollback', { json: { snapshotId: id } })
      expect(await get('one')).toBe('early early')
    },
  )

  test.each(['frozen', 'stored'] as const)(
    'in the middle of a fork of a sandbox that sleeps (%s): there is no child, and it sleeps on',
    async (tier) => {
      await create('one')
      await set('one', 'late')
      await server.ok('/v1/sandboxes/one/standby', { json: { tier } })
      const fault = { method: 'restore', when: 'after', does: 'hang' } as const
      await killAtFault(fault, '/v1/sandboxes/one/fork', { count: 2 })
      await server.begin()
      expect((await server.ok('/v1/sandboxes')).items).toHaveLength(1)
      const { state, lostSince } = await look('one')
      expect({ state, lostSince }).toEqual({ state: 'standby', lostSince: undefined })
      expect(await get('one')).toBe('late late')
    },
  )

  test('in the middle of a fork: the parent and the child that runs keep all they have, the others are removed', async () => {
    await create('one')
    await set('one', 'late')
    await server.kill()
    await server.begin([{ method: 'fork', when: 'amid', does: 'hang' }])
    const forking = server.call('/v1/sandboxes/one/fork', { json: { count: 3 } }).catch(() => 'cut off')
    const parent = (await look('one')).id
    const children = async () =>
      (await server.ok('/v1/sandboxes')).items.filter(
        (item: { forkedFrom?: string }) => item.forkedFrom === parent,
      )
    const running = async () =>
      (await children()).filter(({ state }: { state: string }) => state === 'running')
    await expect.poll(running, { timeout: 30_000 }).toHaveLength(1)
    expect(await children()).toHaveLength(3)
    const [{ id }] = await running()
    await set(id, 'child')
    await set('one', 'later')
    await server.kill()
    expect(await forking).toBe('cut off')
    await server.begin()
    expect(await children()).toMatchObject([{ id, state: 'running' }])
    expect([await get('one'), await get(id)]).toEqual(['later later', 'child child'])
    await store(id)
    expect(await get(id)).toBe('child child')
  })

  test('in the middle of a wake: it sleeps as before, and wakes when it is needed', async () => {
    await create('one')
    await set('one', 'late')
    await store('one')
    const fault = { method: 'restore', when: 'after', does: 'hang' } as const
    await killAtFault(fault, '/v1/sandboxes/one/resume', {})
    await server.begin()
    expect((await look('one')).lostSince).toBeUndefined()
    expect(await get('one')).toBe('late late')
  })

  test('when an unneeded snapshot is about to be deleted: it stays deleted, however new it is', async () => {
    await create('one')
    await set('one', 'early')
    const { id } = await server.ok('/v1/sandboxes/one/snapshots', { json: { name: 'early' } })
    await set('one', 'late')
    await store('one')
    await server.kill()
    await server.begin([{ method: 'deleteSnapshot', when: 'before', does: 'hang' }])
    await server.ok('/v1/sandboxes/one/rollback', { json: { snapshotId: id } })
    await server.struck()
    await server.kill()
    await server.begin()
    expect(await look('one')).toMatchObject({ state: 'standby', headSnapshotId: id })
    expect(await get('one')).toBe('early early')
  })
})
