import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { type SmallDiskServer, startOnSmallDisk } from '../server/small-disk-server.ts'
import { makeLayer } from './make-image.ts'
import { Registry } from './registry.ts'
import { busyboxLayer, noiseLayer, run } from './test-images.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

const MEBIBYTE = 1024 ** 2

let registry: Registry
let small: SmallDiskServer
beforeAll(async () => {
  registry = await Registry.start()
  small = await startOnSmallDisk(
    { bytes: 1_024 * MEBIBYTE, inodes: 60_000 },
    { images: { registriesConf: registry.conf }, builds: { atOnce: 2, memoryBytes: 512 * MEBIBYTE } },
  )
  const image = registry.push('kept:1', [busyboxLayer], { Env: ['PATH=/bin'] })
  expect(await buildTemplate(small.server, { name: 'kept', image })).toMatchObject({ state: 'ready' })
})
afterAll(async () => {
  await small?.cleanUp()
  await registry?.cleanUp()
})
afterEach(() => makeRoom())

const ballast = () => join(small.dataDir, 'ballast')
const makeRoom = () => rmSync(ballast(), { force: true })

function fillUpTo(freeBytes: number): void {
  makeRoom()
  const { bavail, bsize } = statfsSync(small.dataDir)
  execFileSync('fallocate', ['-l', String(bavail * bsize - freeBytes), ballast()])
}

const entries = (name: string) =>
  existsSync(join(small.dataDir, name)) ? readdirSync(join(small.dataDir, name)).sort() : []

async function inside(template: string, code: string): Promise<string> {
  const { server } = small
  const { id } = await server.ok('/v1/sandboxes', { json: { template } })
  const { stdout } = await run(server, { id, key: server.key }, code)
  await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  return stdout
}

describe('a full disk', () => {
  test.each([
    ['pulled', () => Array.from({ length: 12 }, (_, at) => noiseLayer(`pulled-${at}`))],
    // Small on the way, large on disk.
    ['unpacked', () => [makeLayer([{ path: 'zeros', content: Buffer.alloc(64 * MEBIBYTE) }])]],
  ])('while an image is %s fails the build, leaves nothing, and the next try works', async (name, make) => {
    const { server } = small
    const image = registry.push(`${name}:1`, [busyboxLayer, ...make()], { Env: ['PATH=/bin'] })
    const before = entries('layers')
    fillUpTo(8 * MEBIBYTE)
    const failed = await buildTemplate(server, { name, image })
    expect(failed).toMatchObject({ state: 'failed', error: expect.stringMatching(/full|[Nn]o space left/) })
    expect(entries('pulls')).toEqual([])
    await expect.poll(() => entries('layers'), { timeout: 10_000 }).toEqual(before)
    expect(entries('snapshots').filter((each) => each.startsWith('.'))).toEqual([])
    makeRoom()
    expect(await inside('kept', 'echo kept')).toBe('kept\n')
    expect((await buildTemplate(server, { name, image })).error).toBeUndefined()
    expect(await inside(name, 'echo built')).toBe('built\n')
    await server.ok(`/v1/templates/${name}`, { method: 'DELETE' })
  })

  test('in the middle of a step fails the step, leaves no sandbox, and the next try works', async () => {
    const { server } = small
    const image = `${registry.host}/kept:1`
    const dockerfile = `FROM ${image}\nRUN echo one > /one\nRUN dd if=/dev/zero of=/zeros bs=1048576 count=64\n`
    const before = entries('layers')
    fillUpTo(24 * MEBIBYTE)
    const failed = await buildTemplate(server, { name: 'stepped', dockerfile })
    expect(failed).toMatchObject({ state: 'failed', error: expect.stringContaining('RUN dd') })
    expect(failed.logTail).toContain('No space left on device')
    expect((await server.ok('/v1/sandboxes')).items).toEqual([])
    makeRoom()
    expect(await inside('kept', 'echo kept')).toBe('kept\n')
    expect((await buildTemplate(server, { name: 'stepped', dockerfile })).error).toBeUndefined()
    expect(await inside('stepped', 'cat /one; stat -c %s /zeros')).toBe('one\n67108864\n')
    await server.ok('/v1/templates/stepped', { method: 'DELETE' })
    expect(entries('layers').length).toBeGreaterThanOrEqual(before.length)
  })
})
