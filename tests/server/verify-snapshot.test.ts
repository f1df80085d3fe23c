import { execFile } from 'node:child_process'
import { statSync } from 'node:fs'
import { access, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

const exec = promisify(execFile)
let server: ServerProcess
let sandbox: string
let snapshot: string
beforeAll(async () => {
  server = await ServerProcess.start()
  ;({ sandbox, snapshot } = await newSleeper())
})
afterAll(() => server?.cleanUp())

/** Only on disk, with memory and a file of its own. */
async function newSleeper(): Promise<{ sandbox: string; snapshot: string }> {
  const { id } = await server.ok('/v1/sandboxes', { json: { idleTimeoutMs: 0 } })
  await server.run(
    id,
    'import os; data = os.urandom(8 << 20); open("/root/f", "wb").write(os.urandom(1 << 20))',
  )
  const { headSnapshotId } = await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
  return { sandbox: id, snapshot: headSnapshotId }
}

const verify = (id: string, options: { key?: string } = {}) =>
  server.call(`/v1/snapshots/${id}/verify`, { method: 'POST', ...options })

/**
 * The layer with the file, once its checksums are made: before that a changed file cannot be noticed.
 */
async function layerWith(name: string): Promise<string> {
  const { layersDir, sumsDir } = server.factory.layout
  let found = ''
  await expect
    .poll(
      async () => {
        for (const layer of await readdir(sumsDir).catch(() => []))
          if (await exists(join(layersDir, layer, name))) found = layer
        return found
      },
      { timeout: 20_000 },
    )
    .not.toBe('')
  return join(layersDir, found, name)
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

/** One bit, in the middle of its first data. Answers how it is mended, times and all. */
async function flip(path: string, { keepTimes }: { keepTimes: boolean }): Promise<() => Promise<void>> {
  const script = 'import os, sys; print(os.lseek(os.open(sys.argv[1], os.O_RDONLY), 0, os.SEEK_DATA))'
  const at = Number((await exec('python3', ['-c', script, path])).stdout) + 2048
  const before = `${server.factory.stateDir}/times`
  await exec('touch', ['-r', path, before])
  const takeTimes = () => exec('touch', ['-r', before, path])
  const turn = async () => {
    const file = await open(path, 'r+')
    const byte = Buffer.alloc(1)
    await file.read(byte, 0, 1, at)
    await file.write(Buffer.from([(byte[0] ?? 0) ^ 1]), 0, 1, at)
    await file.close()
  }
  await turn()
  if (keepTimes) await takeTimes()
  return async () => {
    await turn()
    await takeTimes()
  }
}

async function expectDamaged(reason: RegExp): Promise<void> {
  const { status, body } = await verify(snapshot)
  expect(status).toBe(409)
  expect(body.error).toMatchObject({ code: 'snapshot_unusable', message: expect.stringMatching(reason) })
  expect(body.error.hint).not.toBe('')
  expect(JSON.stringify(body)).not.toContain(server.factory.stateDir)
}

describe('a snapshot that is verified', () => {
  test('is good, and nothing is woken for it', async () => {
    expect(await verify(snapshot)).toMatchObject({ status: 200, body: { id: snapshot, ok: true } })
    const view = await server.ok(`/v1/sandboxes/${sandbox}`)
    expect(view).toMatchObject({ state: 'standby', tier: 'stored', headSnapshotId: snapshot })
    const { items } = await server.ok(`/v1/sandboxes/${sandbox}/ledger`)
    expect(items.map(({ event }: { event: string }) => event)).not.toContain('woke')
  })

  test('is refused for one bit in its memory, whatever the times of the file say', async () => {
    const { memory } = server.factory.layout.snapshot(snapshot as never)
    // Others share theirs as hard links.
    const isOwn = (each: string) => statSync(join(memory, each)).nlink === 1
    const name = (await readdir(memory)).find(isOwn) ?? ''
    const mend = await flip(join(memory, name), { keepTimes: true })
    await expectDamaged(/memory file .* damaged/)
    await mend()
    expect((await verify(snapshot)).status).toBe(200)
  })

  test('is refused for one bit in a file of a layer, whatever its times say', async () => {
    const mend = await flip(await layerWith('root/f'), { keepTimes: true })
    await expectDamaged(/layer/)
    await mend()
    expect((await verify(snapshot)).status).toBe(200)
  })

  test('wakes as ever afterwards', async () => {
    expect(await server.run(sandbox, 'print(len(data))')).toBe(`${8 << 20}\n`)
  })

  test('can be of files alone', async () => {
    const { id } = await server.ok(`/v1/sandboxes/${sandbox}/snapshots`, { json: { kind: 'files' } })
    expect(await verify(id)).toMatchObject({ status: 200, body: { id, ok: true } })
  })

  test('can be deleted meanwhile', async () => {
    const { id } = await server.ok(`/v1/sandboxes/${sandbox}/snapshots`, { json: {} })
    // Until then it is also the one that the sandbox would come back with.
    await server.ok(`/v1/sandboxes/${sandbox}/standby`, { json: {} })
    const [verified, deleted] = await Promise.all([
      verify(id),
      server.call(`/v1/snapshots/${id}`, { method: 'DELETE' }),
    ])
    expect(deleted.status).toBe(204)
    expect([200, 404]).toContain(verified.status)
    expect((await verify(id)).body.error.code).toBe('not_found')
  })
})

describe('access to verify', () => {
  test('is for keys that may run code, and only for their own snapshots', async () => {
    const [reader, other] = await Promise.all(
      [['read'], ['run']].map((scopes) => server.ok('/v1/keys', { json: { name: 'k', scopes } })),
    )
    const { sandbox: own, snapshot: good } = await newSleeper()
    expect((await verify(good, { key: reader.key })).body.error.code).toBe('scope_missing')
    expect((await verify(good, { key: other.key })).body.error.code).toBe('not_found')
    expect((await verify('sn-2222222222222222')).body.error.code).toBe('not_found')
    expect((await verify('nonsense')).body.error.code).toBe('invalid_argument')
    await server.ok(`/v1/sandboxes/${own}`, { method: 'DELETE' })
  })
})
