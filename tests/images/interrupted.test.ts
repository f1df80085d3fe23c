import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { buildTemplate, builtTemplate } from '../server/build-template.ts'
import { type Fault, ServerProcess } from '../server/server-process.ts'
import { FaultyRegistry } from './faulty-registry.ts'
import { makeLayer } from './make-image.ts'
import { Registry } from './registry.ts'
import { busyboxLayer, noiseLayer, run } from './test-images.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

let registry: Registry
let faulty: FaultyRegistry
let server: ServerProcess
/** What the host has before a test: builds of images that have ended are kept as cached steps. */
let layersBefore: string[]
beforeAll(async () => {
  registry = await Registry.start()
  faulty = await FaultyRegistry.open(registry)
  server = await ServerProcess.start({
    images: { registriesConf: FaultyRegistry.conf(registry, [faulty]) },
    builds: { atOnce: 2, memoryBytes: 512 * 1024 ** 2 },
  })
  registry.push('kept:1', [busyboxLayer], { Env: ['PATH=/bin'] })
  expect(await buildTemplate(server, { name: 'kept', image: `${faulty.host}/kept:1` })).toMatchObject({
    state: 'ready',
  })
})
beforeEach(() => {
  layersBefore = layers()
})
afterAll(async () => {
  await server?.cleanUp()
  await faulty?.[Symbol.asyncDispose]()
  await registry?.cleanUp()
})
afterEach(() => {
  faulty.fault = {}
})

const layers = () => readdirSync(server.factory.layout.layersDir).sort()
const pulls = () => readdirSync(server.factory.layout.pullsDir)

/** Programs of a pull that still run: their command line or working directory is in the state directory. */
function programsLeft(): string[] {
  const { stateDir } = server.factory
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
      } catch {
        return ''
      }
    })
    .filter((line) => line.includes('skopeo') && line.includes(stateDir))
}

/** After a kill: the template has failed, nothing of the build is left, and what was there before still works. */
async function expectUndone(name: string, faults: readonly Fault[] = []): Promise<void> {
  await server.kill()
  await expect.poll(programsLeft, { timeout: 10_000 }).toEqual([])
  await server.begin(faults)
  expect(await builtTemplate(server, name)).toMatchObject({
    state: 'failed',
    error: 'The server ended before it was built.',
  })
  expect((await server.ok('/v1/sandboxes')).items).toEqual([])
  expect(pulls().filter((each) => each.startsWith('.'))).toEqual([])
  await expect.poll(layers, { timeout: 10_000 }).toEqual(layersBefore)
  await expectKept()
}

/** The template that shares its layer with all others here. */
async function expectKept(): Promise<void> {
  const { id } = await server.ok('/v1/sandboxes', { json: { template: 'kept' } })
  expect((await run(server, { id, key: server.key }, 'echo $((6 * 7)); ls /srv')).stdout).toBe('42\n')
  await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
}

/** Builds it to its end, looks inside and removes it. */
async function expectWorks(template: { name: string; [field: string]: unknown }, code: string, said: string) {
  const built = await buildTemplate(server, template)
  expect(built.error).toBeUndefined()
  const { id } = await server.ok('/v1/sandboxes', { json: { template: template.name } })
  expect((await run(server, { id, key: server.key }, code)).stdout).toBe(said)
  await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  await server.ok(`/v1/templates/${template.name}`, { method: 'DELETE' })
  expect(pulls()).toEqual([])
  return built
}

describe('kill -9 of the server', () => {
  test('in the middle of a layer that is pulled', async () => {
    const small = makeLayer([{ path: 'small', content: 'x' }])
    registry.push('pulled:1', [busyboxLayer, small, noiseLayer('pulled')], { Env: ['PATH=/bin'] })
    const template = { name: 'pulled', image: `${faulty.host}/pulled:1` }
    const before = faulty.stalled
    faulty.fault = { stallAfterBytes: 700_000 }
    await server.ok('/v1/templates', { json: template })
    await expect.poll(() => faulty.stalled, { timeout: 60_000 }).toBeGreaterThan(before)
    expect(programsLeft()).not.toEqual([])
    // A layer that has arrived does not wait for the others.
    await expect.poll(() => unpacked('small'), { timeout: 30_000 }).toBe(true)
    await expectUndone('pulled')
    faulty.fault = {}
    await expectWorks(template, 'ls /pulled /small', '/pulled\n/small\n')
  })

  test('while a layer is unpacked', async () => {
    const many = Array.from({ length: 4_000 }, (_, at) => ({ path: `f/${at}`, content: 'x'.repeat(9_000) }))
    registry.push('unpacked:1', [busyboxLayer, makeLayer([{ path: 'f' }, ...many])], { Env: ['PATH=/bin'] })
    const template = { name: 'unpacked', image: `${faulty.host}/unpacked:1` }
    await server.ok('/v1/templates', { json: template })
    await untilUnpacking(100)
    await expectUndone('unpacked')
    await expectWorks(template, 'ls /f/0 /f/3999', '/f/0\n/f/3999\n')
  })

  test('when the image is on disk, and not on record', async () => {
    registry.push('imported:1', [busyboxLayer, noiseLayer('imported')], { Env: ['PATH=/bin'] })
    const template = { name: 'imported', image: `${faulty.host}/imported:1` }
    await server.kill()
    await server.begin([{ method: 'importImage', when: 'after', does: 'hang' }])
    await server.ok('/v1/templates', { json: template })
    await server.struck()
    await expectUndone('imported')
    await expectWorks(template, 'ls /imported', '/imported\n')
  })

  test('in the middle of a step of a Dockerfile: the steps before it are still cached', async () => {
    const WAIT = 'until [ -e /srv/go ]; do sleep 0.05; done'
    const dockerfile = `FROM ${faulty.host}/kept:1\nRUN echo one > /one\nRUN touch /srv/waiting; ${WAIT}\n`
    await server.ok('/v1/templates', { json: { name: 'stepped', dockerfile } })
    await untilWaiting()
    await server.kill()
    await server.begin()
    expect(await builtTemplate(server, 'stepped')).toMatchObject({ state: 'failed' })
    expect((await server.ok('/v1/sandboxes')).items).toEqual([])
    await expectKept()
    const finished = dockerfile.replace(WAIT, 'true')
    const built = await expectWorks({ name: 'stepped', dockerfile: finished }, 'cat /one', 'one\n')
    expect(built.logTail.match(/ {4}cached/g)).toHaveLength(1)
  })
})

/** Directories of layers that are being unpacked or are complete. */
function unpackedLayers(): string[] {
  const { pullsDir } = server.factory.layout
  return pulls()
    .filter((name) => name.startsWith('.unpacking-'))
    .flatMap((name) => readdirSync(join(pullsDir, name)).map((layer) => join(pullsDir, name, layer)))
}

function unpacked(path: string): boolean {
  return unpackedLayers().some((layer) => existsSync(join(layer, path)))
}

/** Waits until this many files of a layer have been unpacked. */
async function untilUnpacking(files: number): Promise<void> {
  const count = () =>
    unpackedLayers()
      .map((layer) => join(layer, 'f'))
      .map((path) => (existsSync(path) ? readdirSync(path).length : 0))
      .reduce((sum, one) => sum + one, 0)
  for (const deadline = Date.now() + 60_000; count() < files; await sleep(1))
    if (Date.now() > deadline) throw new Error('no layer is being unpacked')
}

/** Waits until a sandbox of a build has made /srv/waiting. */
async function untilWaiting(): Promise<void> {
  const isThere = async () => {
    for (const { id } of (await server.ok('/v1/sandboxes')).items) {
      const { status } = await server.call(`/v1/sandboxes/${id}/files/stat?path=/srv/waiting`)
      if (status === 200) return true
    }
    return false
  }
  for (const deadline = Date.now() + 60_000; !(await isThere()); await sleep(20))
    if (Date.now() > deadline) throw new Error('no step of a build is waiting')
}
