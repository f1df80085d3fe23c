import { statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { ServerProcess } from './server-process.ts'
import { type SmallDiskServer, startOnSmallDisk } from './small-disk-server.ts'

const MIB = 1024 ** 2
const PATIENCE_MS = 100_000
const RESERVE = { minFreeDiskBytes: 500 * MIB, minFreeFiles: 30_000 }
/** Few more than the reserve, so that using them up takes seconds. */
const INODES = 60_000

let disk: SmallDiskServer
let server: ServerProcess
beforeAll(async () => {
  disk = await startOnSmallDisk({ bytes: 3 * 1024 * MIB, inodes: INODES }, RESERVE)
  server = disk.server
})
afterEach(() => server.clear())
afterAll(() => disk?.cleanUp())

const sandbox = (name: string) => `/v1/sandboxes/${name}`
const create = (name: string, more: object = {}) =>
  server.ok('/v1/sandboxes', { json: { name, idleTimeoutMs: 0, ...more } })
const stateOf = async (name: string): Promise<string> => (await server.ok(sandbox(name))).state
const causes = async (name: string): Promise<string[]> =>
  (await server.ok(`${sandbox(name)}/ledger`)).items.map(
    ({ event, cause }: { event: string; cause: string }) => `${event} ${cause}`,
  )
const change = (path: string, json: object) => server.ok(path, { method: 'PATCH', json })

/** Goes on by itself after the call. */
const inBackground = (name: string, code: string) =>
  server.run(
    name,
    `import threading, os, time\ndef work():\n${indent(code)}\nthreading.Thread(target=work, daemon=True).start()`,
  )
const indent = (code: string) =>
  code
    .trim()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n')

async function expectAsleep(name: string): Promise<void> {
  await expect.poll(() => stateOf(name), { timeout: PATIENCE_MS }).toBe('standby')
  expect(await causes(name)).toContain('slept disk')
}

describe('limits of one sandbox', () => {
  test('a sandbox with more files than its limit sleeps, and wakes only when the limit is raised', async () => {
    await create('many', { limits: { files: 1_000 } })
    await create('few', { limits: { files: 1_000 } })
    await server.run('few', 'for i in range(500): open(f"/root/{i}", "w").close()')
    await server.run('many', 'x = 42')
    await inBackground('many', 'for i in range(3000): open(f"/root/{i}", "w").close()')
    await expectAsleep('many')
    const refused = await server.call(`${sandbox('many')}/run`, { json: { code: '1' } })
    expect(refused).toMatchObject({
      status: 429,
      body: { error: { code: 'limit_reached', details: { limit: 'files' } } },
    })
    await change(sandbox('many'), { limits: { files: 10_000 } })
    // The thread was saved somewhere in its loop, and finishes it.
    const finish = 'import os, time\nwhile len(os.listdir("/root")) < 3000: time.sleep(0.01)\nprint(x)'
    expect(await server.run('many', finish)).toBe('42\n')
    expect(await stateOf('few')).toBe('running')
  })

  test('one that writes too much and cannot be saved loses its processes, and its files are kept', async () => {
    await create('stubborn', { limits: { diskBytes: 32 * MIB } })
    await server.run(
      'stubborn',
      `
import ctypes, os, signal
libc = ctypes.CDLL(None)
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(child, 0)
open("/root/kept", "wb").write(os.urandom(64 << 20))`,
    )
    await expect.poll(() => stateOf('stubborn'), { timeout: PATIENCE_MS }).toBe('standby')
    expect(await causes('stubborn')).toContain('lost processes ended')
    expect((await server.call(`${sandbox('stubborn')}/run`, { json: { code: '1' } })).status).toBe(429)
    await change(sandbox('stubborn'), { limits: { diskBytes: 512 * MIB } })
    expect(await server.run('stubborn', 'import os; print(os.path.getsize("/root/kept"))')).toBe(
      `${64 * MIB}\n`,
    )
  })
})

describe('the reserve of the host', () => {
  const free = async () => {
    const { bavail, bsize, ffree } = await statfs(disk.dataDir)
    return { bytes: bavail * bsize, files: ffree }
  }
  /** The least that there was until the sandbox slept. */
  async function leastUntilAsleep(name: string): Promise<{ bytes: number; files: number }> {
    const least = await free()
    const deadline = Date.now() + PATIENCE_MS
    while ((await stateOf(name)) !== 'standby') {
      if (Date.now() > deadline) throw new Error(`${name} does not sleep`)
      const now = await free()
      least.bytes = Math.min(least.bytes, now.bytes)
      least.files = Math.min(least.files, now.files)
      await sleep(20)
    }
    return least
  }
  const wake = (name: string) => server.call(`${sandbox(name)}/run`, { json: { code: 'print(1)' } })

  /** Unless it was stopped so early that there is still enough. */
  async function expectRefusedWithoutRoom(name: string): Promise<void> {
    const { bytes, files } = await free()
    const isEnough = bytes >= RESERVE.minFreeDiskBytes * 1.25 && files >= RESERVE.minFreeFiles * 1.25
    const refusal = { code: 'overloaded', details: { reason: 'disk' } }
    expect(await wake(name)).toMatchObject(
      isEnough ? { status: 200 } : { status: 503, body: { error: refusal } },
    )
  }

  test('a fast writer is put to standby before it is touched, others run on, and it wakes only when there is room', async () => {
    await create('bystander')
    await create('writer')
    await inBackground('bystander', 'while True:\n  open("/root/log", "a").write("x"); time.sleep(0.05)')
    await inBackground(
      'writer',
      'for i in range(100000):\n  open(f"/root/{i}", "wb").write(bytes(4 << 20)); time.sleep(0.01)',
    )
    const least = await leastUntilAsleep('writer')
    expect(await causes('writer')).toContain('slept disk')
    // Its snapshot takes some of it: that is what the reserve is for.
    expect(least.bytes).toBeGreaterThan(RESERVE.minFreeDiskBytes - 100 * MIB)
    expect(await stateOf('bystander')).toBe('running')
    expect((await wake('bystander')).status).toBe(200)
    await expectRefusedWithoutRoom('writer')
  })

  test('one that takes all inodes is put to standby before it is touched', async () => {
    await create('bystander')
    await create('maker')
    await inBackground(
      'maker',
      'for d in range(60):\n  os.mkdir(f"/root/{d}")\n  for i in range(1000): open(f"/root/{d}/{i}", "w").close()',
    )
    const least = await leastUntilAsleep('maker')
    expect(least.files).toBeGreaterThan(0)
    expect(await causes('maker')).toContain('slept disk')
    await expectRefusedWithoutRoom('maker')
    expect((await wake('bystander')).status).toBe(200)
  })
})

describe('the size of a volume', () => {
  const volume = (name: string) => `/v1/volumes/${name}`

  test('has a default, can be given, changed, and seen', async () => {
    expect(await server.ok('/v1/volumes', { json: { name: 'plain' } })).toMatchObject({
      sizeBytes: 10 * 1024 * MIB,
    })
    expect(await server.ok('/v1/volumes', { json: { name: 'small', sizeBytes: 16 * MIB } })).toMatchObject({
      sizeBytes: 16 * MIB,
    })
    expect(await change(volume('small'), { sizeBytes: 20 * MIB })).toMatchObject({ sizeBytes: 20 * MIB })
    expect(await server.ok(volume('small'))).toMatchObject({ sizeBytes: 20 * MIB, files: 0 })
  })

  test('when it is passed, sandboxes that can write to it sleep until it is raised; readers run on', async () => {
    await server.ok('/v1/volumes', { json: { name: 'data', sizeBytes: 16 * MIB } })
    const mount = (readOnly: boolean) => ({ volumes: [{ volume: 'data', path: '/data', readOnly }] })
    await create('writer', mount(false))
    await create('reader', mount(true))
    await server.run('writer', 'import os; x = 7')
    await inBackground('writer', 'open("/data/f", "wb").write(bytes(40 << 20)); time.sleep(600)')
    await expectAsleep('writer')
    expect(await server.call(`${sandbox('writer')}/run`, { json: { code: '1' } })).toMatchObject({
      status: 429,
      body: { error: { code: 'limit_reached', details: { limit: 'sizeBytes', volume: 'data' } } },
    })
    expect(await server.run('reader', 'import os; print(os.path.getsize("/data/f"))')).toBe(`${40 * MIB}\n`)
    await change(volume('data'), { sizeBytes: 64 * MIB })
    expect(await server.run('writer', 'os.remove("/data/f"); print(x)')).toBe('7\n')
    await change(volume('data'), { sizeBytes: 16 * MIB })
    await expect
      .poll(async () => (await server.ok(volume('data'))).bytes, { timeout: PATIENCE_MS })
      .toBeLessThan(MIB)
    expect(await stateOf('writer')).toBe('running')
  })
})
