import { mkdir, open, readdir, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ServerProcess } from './server-process.ts'
import { type SmallDiskServer, startOnSmallDisk } from './small-disk-server.ts'

const DISK_BYTES = 1024 ** 3
const DISK_INODES = 8192
/** More than the reserve has. */
const RESERVE_FILES = 32 + 128

let disk: SmallDiskServer
let server: ServerProcess
let dataDir = ''
let ballast = ''

beforeAll(async () => {
  disk = await startOnSmallDisk({ bytes: DISK_BYTES, inodes: DISK_INODES })
  ;({ server, dataDir } = disk)
  ballast = join(dataDir, 'ballast')
})
afterAll(() => disk?.cleanUp())

/** Nothing is left, not one of it, at the end of this. */
const fills = {
  async blocks() {
    await mkdir(ballast, { recursive: true })
    // Many small steps at the end: one large request may fail although there is some room.
    for (const size of [1024 ** 2, 4096]) {
      const file = await open(join(ballast, `blocks-${size}`), 'a')
      try {
        for (;;) await file.appendFile(Buffer.alloc(size))
      } catch (error) {
        expect(error).toMatchObject({ code: 'ENOSPC' })
      } finally {
        await file.close()
      }
    }
    expect((await statfs(dataDir)).bavail).toBe(0)
  },
  async inodes() {
    await mkdir(ballast, { recursive: true }).catch(() => {})
    let count = (await readdir(ballast)).length
    for (;;) {
      try {
        await writeFile(join(ballast, `inode-${count++}`), '')
      } catch (error) {
        expect(error).toMatchObject({ code: 'ENOSPC' })
        break
      }
    }
    expect((await statfs(dataDir)).ffree).toBe(0)
  },
}

const NO_SPACE = { status: 507, body: { error: { code: 'no_space' } } }

describe.each(['blocks', 'inodes'] as const)('a data disk with no %s left at all', (kind) => {
  const fill = fills[kind]
  let snapshotId = ''

  const make = (name: string) => server.ok('/v1/sandboxes', { json: { name, idleTimeoutMs: 0 } })
  const post = (path: string, json: object) => server.call(`/v1/sandboxes/${path}`, { json })
  const stateOf = async (name: string) => (await server.ok(`/v1/sandboxes/${name}`)).state

  beforeAll(async () => {
    for (const name of ['awake', 'asleep', 'doomed']) {
      await make(name)
      await server.run(name, `x = '${name}'`)
    }
    for (const name of ['asleep', 'doomed']) await post(`${name}/standby`, { tier: 'stored' })
    await server.ok(`/v1/sandboxes/awake/standby`, { json: { tier: 'frozen' } })
    snapshotId = (await server.ok('/v1/sandboxes/awake/snapshots', { json: { name: 'early' } })).id
    await server.run('awake', 'x = "late"')
  })
  beforeEach(async () => {
    // It is made while there is room, and not before those who have waited for the server.
    await expect
      .poll(async () => (await readdir(join(dataDir, 'reserve')).catch(() => [])).length, { timeout: 30_000 })
      .toBe(RESERVE_FILES)
    await fill()
  })
  afterEach(() => rm(ballast, { recursive: true, force: true }))
  afterAll(() => server.clear())

  test('lists sandboxes, and runs code in one that is awake', async () => {
    expect((await server.ok('/v1/sandboxes')).items).toHaveLength(3)
    expect(await server.run('awake', 'print(x)')).toBe('late\n')
  })

  test('wakes a sandbox that is asleep', async () => {
    expect(await server.run('asleep', 'print(x)')).toBe('asleep\n')
    await rm(ballast, { recursive: true, force: true })
    await post('asleep/standby', { tier: 'stored' })
  })

  test('refuses a standby, and the sandbox keeps running', async () => {
    expect(await post('awake/standby', { tier: 'stored' })).toMatchObject(NO_SPACE)
    expect(await stateOf('awake')).toBe('running')
    expect(await server.run('awake', 'print(x)')).toBe('late\n')
  })

  test('rolls back while the reserve has room for it; otherwise it says `no_space`, and the sandbox keeps running', async () => {
    const answer = await post('awake/rollback', { snapshotId })
    if (answer.status !== 200) expect(answer).toMatchObject(NO_SPACE)
    expect(await server.run('awake', 'print(x)')).toBe(answer.status === 200 ? 'awake\n' : 'late\n')
    await server.run('awake', 'x = "late"')
  })

  test('starts a server after `kill -9` and after an end in order', async () => {
    await server.kill()
    await fill()
    await server.begin()
    expect(await server.run('awake', 'print(x)')).toBe('late\n')
    await rm(ballast, { recursive: true, force: true })
    await server.stop()
    await fill()
    await server.begin()
    expect((await server.ok('/v1/sandboxes')).items).toHaveLength(3)
    expect(await server.run('awake', 'print(x)')).toBe('late\n')
  })

  test('deletes a sandbox, and its room comes back', async () => {
    const { status } = await server.call('/v1/sandboxes/doomed', { method: 'DELETE' })
    expect(status).toBe(204)
    const { bavail, bsize, ffree } = await statfs(dataDir)
    if (kind === 'blocks') expect(bavail * bsize).toBeGreaterThan(4 * 1024 ** 2)
    else expect(ffree).toBeGreaterThan(4)
  })
})
