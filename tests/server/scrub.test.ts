import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { access, open, readdir, readFile, realpath, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testDataDir } from '../test-data-dir.ts'
import { ServerProcess } from './server-process.ts'

const exec = promisify(execFile)
const FAST = 10 ** 9
const NEVER_MS = 2 ** 31 - 1
let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ scrub: { periodDays: 0, bytesPerSecond: FAST, delayMs: NEVER_MS } })
  await leaveOutTemplate(true)
})
afterAll(() => server?.cleanUp())

/** Half a gigabyte that is the same for all tests: marked as read, or not. */
async function leaveOutTemplate(isLeftOut: boolean): Promise<void> {
  const build = await realpath(join(testDataDir, 'templates/python/current'))
  const db = new DatabaseSync(join(server.factory.stateDir, 'state.db'))
  const key = `template:python/${basename(build)}`
  db.prepare('DELETE FROM scrubbed_parts WHERE key = ?').run(key)
  if (isLeftOut) db.prepare('INSERT INTO scrubbed_parts VALUES (?, ?, NULL)').run(key, Date.now() + 3_600_000)
  db.close()
}

async function restartWith(scrub: object): Promise<void> {
  await server.kill()
  const path = join(server.factory.stateDir, 'config.json')
  const config = JSON.parse(await readFile(path, 'utf8'))
  const whole = { ...config, scrub: { ...config.scrub, ...scrub } }
  await writeFile(path, JSON.stringify(whole))
  await server.begin()
}

/** Asleep on disk, with an older snapshot, and with memory and a file of its own in each. */
async function newSleeper(name: string): Promise<{ early: string; head: string }> {
  await server.ok('/v1/sandboxes', { json: { name, idleTimeoutMs: 0 } })
  const set = (value: string) =>
    server.run(
      name,
      `x = "${value}"; data = bytearray(b"${value[0]}" * (8 << 20)); open("/root/f", "w").write("${value}" * 4096)`,
    )
  await set('early')
  const { id: early } = await server.ok(`/v1/sandboxes/${name}/snapshots`, { json: { name: 'early' } })
  await set('late')
  const { headSnapshotId } = await server.ok(`/v1/sandboxes/${name}/standby`, { json: { tier: 'stored' } })
  return { early, head: headSnapshotId }
}

const look = (name: string) => server.ok(`/v1/sandboxes/${name}`)
const resume = (name: string) => server.call(`/v1/sandboxes/${name}/resume`, { json: {} })
const verify = (id: string) => server.call(`/v1/snapshots/${id}/verify`, { method: 'POST' })
const state = (name: string) =>
  server.run(name, 'print(x, bytes(set(data)), set(open("/root/f").read()) <= set(x))')

async function scrub(): Promise<void> {
  await server.ok('/v1/scrub', { json: {} })
  await expect
    .poll(async () => (await server.ok('/v1/scrub')).state, { timeout: 60_000, interval: 100 })
    .toBe('idle')
}

/** A memory file that only this snapshot has: others share theirs as hard links. */
async function memoryOf(snapshot: string): Promise<string> {
  const { memory } = server.factory.layout.snapshot(snapshot as never)
  const paths = (await readdir(memory)).map((each) => join(memory, each))
  return paths.find((path) => statSync(path).nlink === 1) ?? ''
}

/** The top layer of the snapshot, once it has checksums. */
async function fileOf(snapshot: string): Promise<string> {
  const { layout } = server.factory
  const { layers } = JSON.parse(await readFile(layout.snapshot(snapshot as never).manifest, 'utf8'))
  await expect.poll(() => readdirSync(layout.sumsDir), { timeout: 20_000 }).toContain(layers[0])
  const path = join(layout.layersDir, layers[0], 'root/f')
  await access(path)
  return path
}

/** One bit; the times of the file stay. Returns how it is mended. */
async function flip(path: string): Promise<() => Promise<void>> {
  const script = 'import os, sys; print(os.lseek(os.open(sys.argv[1], os.O_RDONLY), 0, os.SEEK_DATA))'
  const at = Number((await exec('python3', ['-c', script, path])).stdout) + 2048
  const times = `${server.factory.stateDir}/times`
  const turn = async () => {
    await exec('touch', ['-r', path, times])
    const file = await open(path, 'r+')
    const byte = Buffer.alloc(1)
    await file.read(byte, 0, 1, at)
    await file.write(Buffer.from([(byte[0] ?? 0) ^ 1]), 0, 1, at)
    await file.close()
    await exec('touch', ['-r', times, path])
  }
  await turn()
  return turn
}

async function expectRefused(name: string, { head, early }: { head: string; early: string }, reason: RegExp) {
  const { status, body } = await resume(name)
  expect({ status, code: body.error.code }).toEqual({ status: 409, code: 'snapshot_unusable' })
  expect(body.error.message).toMatch(reason)
  expect(body.error.hint).toContain(early)
  expect(body.error.details).toMatchObject({ snapshotId: head, rollbackTo: early })
  expect(JSON.stringify(body)).not.toContain(server.factory.stateDir)
}

describe('a bit that a disk lost, with the times of its file kept', () => {
  test.each([
    ['memory', memoryOf, /memory file .* is damaged/],
    ['file', fileOf, /file layer .*root\/f is not as it was/],
  ] as const)('in a %s is found by the scrub, and nothing wakes from it', async (name, find, reason) => {
    const snapshots = await newSleeper(name)
    const { head, early } = snapshots
    await scrub()
    expect((await server.ok('/v1/scrub')).damagedSnapshots).toEqual([])
    await flip(await find(head))
    await scrub()

    const damage = { snapshotId: head, reason: expect.stringMatching(reason), rollbackTo: early }
    expect((await server.ok('/v1/scrub')).damagedSnapshots).toMatchObject([{ snapshotId: head }])
    expect(await look(name)).toMatchObject({ state: 'standby', damage })
    expect((await server.ok(`/v1/snapshots/${head}`)).damage.reason).toMatch(reason)
    expect((await server.ok(`/v1/snapshots/${early}`)).damage).toBeUndefined()
    const why = await server.ok(`/v1/sandboxes/${name}/why`)
    expect(why).toMatchObject({ damage, summary: expect.stringContaining(early) })
    const { items } = await server.ok(`/v1/sandboxes/${name}/ledger`)
    expect(items.at(-1)).toMatchObject({ event: 'damaged', cause: 'scrub' })
    const metrics = await (await server.fetch('/metrics')).text()
    expect(metrics).toMatch(/^dormouse_damaged_snapshots 1$/m)

    await expectRefused(name, snapshots, reason)
    expect((await server.call(`/v1/sandboxes/${name}/fork`, { json: { count: 1 } })).status).toBe(409)
    await server.kill()
    await server.begin()
    await expectRefused(name, snapshots, reason)

    await server.ok(`/v1/sandboxes/${name}/rollback`, { json: { snapshotId: early } })
    expect(await state(name)).toBe("early b'e' True\n")
    // Nothing referred to the damaged one any more, and it was deleted.
    await expect.poll(async () => (await server.ok('/v1/scrub')).damagedSnapshots).toEqual([])
    expect((await look(name)).damage).toBeUndefined()
    await server.ok(`/v1/sandboxes/${name}`, { method: 'DELETE' })
  })

  test('is found by a verify, which also finds that it was mended', async () => {
    const { early, head } = await newSleeper('verified')
    const mend = await flip(await fileOf(head))
    expect((await verify(head)).status).toBe(409)
    await expectRefused('verified', { early, head }, /root\/f is not as it was/)
    await mend()
    expect((await verify(head)).status).toBe(200)
    expect(await state('verified')).toBe("late b'l' True\n")
    await server.ok('/v1/sandboxes/verified', { method: 'DELETE' })
  })

  test('in what a snapshot shares with an older one is damage of both, until a scrub finds it mended', async () => {
    const { early } = await newSleeper('shared')
    await server.ok('/v1/sandboxes/shared/rollback', { json: { snapshotId: early } })
    await server.run('shared', 'y = 1')
    const { headSnapshotId: head } = await server.ok('/v1/sandboxes/shared/standby', {
      json: { tier: 'stored' },
    })
    const mend = await flip(await fileOf(early))
    await scrub()
    const found = (await server.ok('/v1/scrub')).damagedSnapshots
    expect(found.map(({ snapshotId }: { snapshotId: string }) => snapshotId).sort()).toEqual(
      [early, head].sort(),
    )
    const { body } = await resume('shared')
    expect(body.error.code).toBe('snapshot_unusable')
    expect(body.error.details.rollbackTo).toBeUndefined()
    const back = await server.call('/v1/sandboxes/shared/rollback', { json: { snapshotId: early } })
    expect(back.body.error.code).toBe('snapshot_unusable')
    await mend()
    await scrub()
    expect((await resume('shared')).status).toBe(200)
    await server.ok('/v1/sandboxes/shared', { method: 'DELETE' })
  })

  test('is found soon after a sleep, without a request', async () => {
    await restartWith({ delayMs: 3_000 })
    const { early, head } = await newSleeper('soon')
    await flip(await memoryOf(head))
    await expect
      .poll(async () => (await look('soon')).damage, { timeout: 20_000, interval: 100 })
      .toBeDefined()
    await expectRefused('soon', { early, head }, /memory file .* is damaged/)
    await server.ok('/v1/sandboxes/soon', { method: 'DELETE' })
  })
})

/** What the scrub has read, and when. */
function checkedParts(): Map<string, number> {
  const db = new DatabaseSync(join(server.factory.stateDir, 'state.db'), { readOnly: true })
  const rows = db.prepare('SELECT key, checked_at FROM scrubbed_parts').all() as {
    key: string
    checked_at: number
  }[]
  db.close()
  return new Map(rows.map(({ key, checked_at }) => [key, checked_at]))
}

function readers(): number {
  return readdirSync('/proc').filter((name) => {
    try {
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8')
      return command.includes('dormouse-scrub') && command.includes(server.factory.layout.sumsDir)
    } catch {
      return false
    }
  }).length
}

describe('a pass of the scrub', () => {
  test('ends with the server, and continues with the next where it was', async () => {
    await leaveOutTemplate(false)
    await newSleeper('kept')
    // So slowly that the template alone takes minutes.
    await restartWith({ bytesPerSecond: 8 << 20, delayMs: NEVER_MS })
    const began = Date.now()
    await server.ok('/v1/scrub', { json: {} })
    const done = () => [...checkedParts().values()].filter((at) => at >= began).length
    await expect.poll(done, { timeout: 60_000, interval: 100 }).toBeGreaterThan(2)
    expect(await server.ok('/v1/scrub')).toMatchObject({ state: 'running', progress: expect.any(Object) })
    await server.kill()
    await expect.poll(readers).toBe(0)
    const first = new Map([...checkedParts()].filter(([, at]) => at >= began))
    await restartWith({ bytesPerSecond: FAST })
    await expect
      .poll(async () => (await server.ok('/v1/scrub')).state, { timeout: 60_000, interval: 100 })
      .toBe('idle')
    const after = checkedParts()
    for (const [key, at] of first) expect(after.get(key)).toBe(at)
    expect(after.size).toBeGreaterThan(first.size)
    const metrics = await (await server.fetch('/metrics')).text()
    expect(metrics).toMatch(/^dormouse_scrub_last_pass_timestamp_seconds [1-9]/m)
    expect(metrics).toMatch(/^dormouse_scrub_read_bytes_total [1-9]/m)
    await server.ok('/v1/sandboxes/kept', { method: 'DELETE' })
  })

  test('reads templates, too', () => {
    const keys = [...checkedParts().keys()]
    expect(keys.some((key) => key.startsWith('template:python/'))).toBe(true)
  })

  test('is for admins', async () => {
    const { key } = await server.ok('/v1/keys', { json: { name: 'k', scopes: ['run'] } })
    expect((await server.call('/v1/scrub', { key })).body.error.code).toBe('scope_missing')
    expect((await server.call('/v1/scrub', { key, json: {} })).body.error.code).toBe('scope_missing')
  })
})
