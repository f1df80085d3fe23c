import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate, builtTemplate } from '../server/build-template.ts'
import { type SmallDiskServer, startOnSmallDisk } from '../server/small-disk-server.ts'
import { FaultyRegistry } from './faulty-registry.ts'
import { makeLayer } from './make-image.ts'
import { Registry } from './registry.ts'
import { busyboxLayer, noiseLayer, run } from './test-images.ts'

const MEBIBYTE = 1024 ** 2
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

let registry: Registry
let faulty: FaultyRegistry
let disk: SmallDiskServer
let image: string
beforeAll(async () => {
  registry = await Registry.start()
  faulty = await FaultyRegistry.open(registry)
  const conf = join(registry.directory, 'registries.conf')
  const hosts = [registry, faulty].map(({ host }) => `[[registry]]\nlocation = "${host}"\ninsecure = true\n`)
  writeFileSync(conf, hosts.join('\n'))
  image = registry.push('base:1', [busyboxLayer], { Env: ['PATH=/bin'] })
  const builds = { memoryBytes: 512 * MEBIBYTE }
  disk = await startOnSmallDisk(
    { bytes: 700 * MEBIBYTE, inodes: 20_000 },
    { images: { registriesConf: conf }, builds },
  )
})
afterAll(async () => {
  await disk?.cleanUp()
  await faulty?.[Symbol.asyncDispose]()
  await registry?.cleanUp()
})
afterEach(() => {
  faulty.fault = {}
  makeRoom()
})

const build = (template: { name: string; [field: string]: unknown }) => buildTemplate(disk.server, template)

/** What an import or a step leaves that was cut off. */
function halfMade(): string[] {
  const { layout } = disk.server.factory
  const hidden = (directory: string) => readdirSync(directory).filter((name) => name.startsWith('.'))
  return [layout.pullsDir, layout.snapshotsDir, layout.layersDir].flatMap(hidden)
}

function fillUpTo(freeBytes: number): void {
  const { bavail, bsize } = statfsSync(disk.dataDir)
  execFileSync('fallocate', ['-l', String(bavail * bsize - freeBytes), join(disk.dataDir, 'ballast')])
}

function makeRoom(): void {
  rmSync(join(disk.dataDir, 'ballast'), { force: true })
}

async function restart(): Promise<void> {
  await disk.server.kill()
  await disk.server.begin()
}

const SERVER_ENDED = { state: 'failed', error: 'The server ended before it was built.' }

describe('kill -9 of the server', () => {
  test('in the middle of a layer ends skopeo, and the next try works and leaves nothing half-made', async () => {
    registry.push('stalled:1', [busyboxLayer, noiseLayer('stalled')], { Env: ['PATH=/bin'] })
    faulty.fault = { stallAfterBytes: 300_000 }
    const template = { name: 'stalled', image: `${faulty.host}/stalled:1` }
    await disk.server.ok('/v1/templates', { json: template })
    await expect.poll(() => faulty.stalled, { timeout: 60_000 }).toBeGreaterThan(0)
    await restart()
    expect(await builtTemplate(disk.server, 'stalled')).toMatchObject(SERVER_ENDED)
    const running = `pgrep --full --count 'skopeo.*${faulty.host}' || true`
    await expect
      .poll(() => execFileSync('sh', ['-c', running], { encoding: 'utf8' }).trim(), { timeout: 10_000 })
      // The shell that asks has the words in its own command line.
      .toBe('1')
    faulty.fault = {}
    expect(await build(template)).toMatchObject({ state: 'ready' })
    expect(halfMade()).toEqual([])
    expect(readdirSync(disk.server.factory.layout.pullsDir)).toEqual([])
  })

  test.each([
    ['when an image is imported, and not on record', 'importImage', 'after'],
    ['before the files of a step are saved', 'snapshot', 'before'],
    ['when the files of a step are saved, and not on record', 'snapshot', 'after'],
  ] as const)('%s leaves nothing of it, and the next try works', async (title, method, when) => {
    const name = `killed-${method}-${when}`.toLowerCase()
    const template = { name, dockerfile: `FROM ${image}\nRUN echo ${title} > /said\n` }
    const before = readdirSync(disk.server.factory.layout.snapshotsDir).length
    await disk.server.kill()
    await disk.server.begin([{ method, when, does: 'hang' }])
    await disk.server.ok('/v1/templates', { json: template })
    await disk.server.struck()
    await restart()
    expect(await builtTemplate(disk.server, name)).toMatchObject(SERVER_ENDED)
    // The image may be there, for the next try.
    expect(readdirSync(disk.server.factory.layout.snapshotsDir).length - before).toBeLessThanOrEqual(1)
    expect(halfMade()).toEqual([])
    expect(await build(template)).toMatchObject({ state: 'ready' })
    const { id } = await disk.server.ok('/v1/sandboxes', { json: { template: name } })
    expect((await run(disk.server, { id, key: disk.server.key }, 'cat /said')).stdout).toBe(`${title}\n`)
  })
})

describe('a full disk', () => {
  test('in the middle of a layer fails the import, gives the room back, and the next try works', async () => {
    const zeros = makeLayer([{ path: 'zeros', content: Buffer.alloc(96 * MEBIBYTE) }])
    const template = { name: 'full', image: registry.push('zeros:1', [busyboxLayer, zeros]) }
    fillUpTo(48 * MEBIBYTE)
    const failed = await build(template)
    expect(failed).toMatchObject({ state: 'failed', error: expect.stringMatching(/disk is full|No space/) })
    const { bavail, bsize } = statfsSync(disk.dataDir)
    expect(bavail * bsize).toBeGreaterThan(32 * MEBIBYTE)
    expect(halfMade()).toEqual([])
    makeRoom()
    expect(await build(template)).toMatchObject({ state: 'ready' })
  })

  test('in the middle of a step fails the step, and the next try works', async () => {
    const step = 'RUN dd if=/dev/zero of=/zeros bs=1048576 count=96'
    const template = { name: 'full-step', dockerfile: `FROM ${image}\nRUN echo kept > /kept\n${step}\n` }
    fillUpTo(48 * MEBIBYTE)
    const failed = await build(template)
    expect(failed).toMatchObject({ state: 'failed', failedStep: step })
    makeRoom()
    const done = await build(template)
    expect(done).toMatchObject({ state: 'ready' })
    expect(done.logTail).toContain('cached')
    expect(halfMade()).toEqual([])
  })
})
