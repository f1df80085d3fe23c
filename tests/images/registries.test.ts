import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate, builtTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { FaultyRegistry } from './faulty-registry.ts'
import { digestOf, makeLayer, writeIndex, writeLargeLayer } from './make-image.ts'
import { KEEPER, Registry, TESTER } from './registry.ts'
import { busyboxLayer, noise, noiseLayer, run, upload } from './test-images.ts'

const MEBIBYTE = 1024 ** 2
const LARGE_BYTES = 2_048 * MEBIBYTE

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

let registry: Registry
let locked: Registry
/** Asks for another password. */
let vault: Registry
let faulty: FaultyRegistry
/** The way to the vault, which sees what is sent. */
let watched: FaultyRegistry
let server: ServerProcess
let tenant: string
beforeAll(async () => {
  ;[registry, locked, vault] = await Promise.all([
    Registry.start(),
    Registry.start(TESTER),
    Registry.start(KEEPER),
  ])
  faulty = await FaultyRegistry.open(registry)
  watched = await FaultyRegistry.open(vault)
  const conf = join(registry.directory, 'registries.conf')
  const insecure = [registry, locked, faulty, watched].map(
    ({ host }) => `[[registry]]\nlocation = "${host}"\ninsecure = true\n`,
  )
  const mirrored = `[[registry]]\nlocation = "mirrored.example"\n[[registry.mirror]]\nlocation = "${registry.host}"\ninsecure = true\n`
  // The same registry by another name, without leave to do without TLS.
  const strict = `[[registry]]\nlocation = "localhost:${registry.port}"\n`
  writeFileSync(conf, [...insecure, mirrored, strict].join('\n'))
  server = await ServerProcess.start({
    images: { registriesConf: conf },
    builds: { atOnce: 8, memoryBytes: 512 * MEBIBYTE, diskBytes: 3_072 * MEBIBYTE },
  })
  tenant = (await server.ok('/v1/keys', { json: { name: 'tenant', scopes: ['run', 'read'] } })).key
})
afterAll(async () => {
  await server?.cleanUp()
  await faulty?.[Symbol.asyncDispose]()
  await watched?.[Symbol.asyncDispose]()
  await Promise.all([registry, locked, vault].map((one) => one?.cleanUp()))
})
afterEach(() => {
  faulty.fault = {}
  faulty.sent.length = 0
})

const build = (template: { name: string; [field: string]: unknown }, key = tenant) =>
  buildTemplate(server, template, key)

/** An image of a small and a large layer. */
function pushLarge(name: string): string {
  registry.push(`${name}:1`, [busyboxLayer, noiseLayer(name)], { Env: ['PATH=/bin'] })
  return `${faulty.host}/${name}:1`
}

test('a mirror serves a registry that cannot be reached', async () => {
  registry.push('team/web:1', [busyboxLayer], { Env: ['PATH=/bin', 'FROM=mirror'] })
  const template = await build({ name: 'mirrored', image: 'mirrored.example/team/web:1' })
  expect(template.error).toBeUndefined()
  const { id } = await server.ok('/v1/sandboxes', { json: { template: 'mirrored' }, key: tenant })
  expect((await run(server, { id, key: tenant }, 'echo $FROM')).stdout).toBe('mirror\n')
})

test('a registry without TLS serves only where the operator allows it', async () => {
  registry.push('plain:1', [busyboxLayer])
  const image = `localhost:${registry.port}/plain:1`
  expect(await build({ name: 'strict', image })).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('HTTPS'),
  })
  expect(await build({ name: 'strict', image: `${registry.host}/plain:1` })).toMatchObject({ state: 'ready' })
})

test('credentials open a registry that asks for them, and are not kept', async () => {
  const image = locked.push('private:1', [busyboxLayer], {}, { creds: 'tester:secret' })
  const wrong = { username: 'tester', password: 'wrong' }
  for (const registryAuth of [undefined, wrong])
    expect(await build({ name: 'locked', image, registryAuth })).toMatchObject({
      state: 'failed',
      error: expect.stringMatching(/auth/i),
    })
  const registryAuth = { username: 'tester', password: 'secret' }
  expect(await build({ name: 'locked', image, registryAuth })).toMatchObject({ state: 'ready' })
  // Files come and go while it searches, and it ends with an error also when it finds nothing.
  const search = 'grep --recursive --files-with-matches --no-messages --devices=skip "$0" "$1" || true'
  const secret = Buffer.from('tester:secret').toString('base64')
  const kept = execFileSync('sh', ['-c', search, secret, server.factory.stateDir], { encoding: 'utf8' })
  expect(kept).toBe('')
})

describe('a build from two registries with passwords', () => {
  const first = { username: 'tester', password: 'secret' }
  const second = { username: 'keeper', password: 'other' }
  let dockerfile: string
  beforeAll(() => {
    const base = locked.push('base:1', [busyboxLayer], { Env: ['PATH=/bin'] }, { creds: 'tester:secret' })
    const layer = makeLayer([{ path: 'word', content: 'from the vault\n' }])
    vault.push('words:1', [layer], {}, { creds: 'keeper:other' })
    dockerfile = `FROM ${base}\nCOPY --from=${watched.host}/words:1 /word /word\n`
  })
  const logins = () => [
    { ...first, registry: locked.host },
    { ...second, registry: watched.host },
  ]

  test('logs in to each with its own password and sends it to no other', async () => {
    const template = await build({ name: 'two', dockerfile, registryAuth: logins() })
    expect(template.error).toBeUndefined()
    const { id } = await server.ok('/v1/sandboxes', { json: { template: 'two' }, key: tenant })
    expect((await run(server, { id, key: tenant }, 'cat /word')).stdout).toBe('from the vault\n')
    const { username, password } = second
    const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
    expect([...watched.authorizations]).toEqual([basic])

    watched.authorizations.clear()
    const more = `${dockerfile}RUN true\n`
    const half = await build({ name: 'half', dockerfile: more, registryAuth: logins().slice(0, 1) })
    expect(half).toMatchObject({ state: 'failed', error: expect.stringContaining(watched.host) })
    // skopeo answers a challenge with an empty login when it has none.
    const sent = [...watched.authorizations].map((one) => Buffer.from(one.slice(6), 'base64').toString())
    expect(sent.filter((login) => login !== ':')).toEqual([])
  })

  test('is refused when a login may be for either, or for none', async () => {
    const cases: [unknown, string][] = [
      [first, 'does not say which'],
      [[first, { ...second, registry: watched.host }], 'does not say which'],
      [[...logins(), { ...first, registry: locked.host }], 'two logins'],
      [{ ...first, registry: 'elsewhere.example' }, 'pulls no image from elsewhere.example'],
    ]
    for (const [registryAuth, reason] of cases) {
      const json = { name: 'unclear', dockerfile, registryAuth }
      const { status, body } = await server.call('/v1/templates', { json, key: tenant })
      expect({ status, code: body.error.code }).toEqual({ status: 400, code: 'invalid_argument' })
      expect(body.error.message).toContain(reason)
      expect(body.error.message).toContain(`${locked.host}, ${watched.host}`)
    }
  })
})

interface Listed {
  readonly digest: string
  readonly platform: { readonly architecture: string }
}

/** The manifest of an image as its registry has it. */
async function manifestOf(name: string, reference: string) {
  const accept = ['index', 'manifest'].map((kind) => `application/vnd.oci.image.${kind}.v1+json`).join(', ')
  const answer = await fetch(`http://${registry.host}/v2/${name}/manifests/${reference}`, {
    headers: { accept },
  })
  const content = (await answer.json()) as { manifests: Listed[]; layers: { digest: string }[] }
  return { ...content, digest: answer.headers.get('docker-content-digest') }
}

describe('an image for several platforms, with attestations', () => {
  let nested: string
  beforeAll(() => {
    nested = mkdtempSync(join(registry.directory, 'index-'))
    const own = [busyboxLayer, makeLayer([{ path: 'platform', content: 'own\n' }])]
    const other = [makeLayer([{ path: 'platform', content: 'other\n' }])]
    writeIndex(nested, { own, other }, { config: { Env: ['PATH=/bin'] } })
  })
  const platformIn = async (template: string) => {
    const { id } = await server.ok('/v1/sandboxes', { json: { template }, key: tenant })
    return (await run(server, { id, key: tenant }, 'cat /platform')).stdout
  }

  test('is pulled for the platform of this host only, by tag and by digest', async () => {
    const image = registry.pushLayout('platforms:1', nested).replace(registry.host, faulty.host)
    const template = await build({ name: 'platforms', image })
    expect(template.error).toBeUndefined()
    expect(await platformIn('platforms')).toBe('own\n')
    const { digest, manifests } = await manifestOf('platforms', '1')
    expect(
      (await build({ name: 'by-digest', image: image.replace(/:1$/, `@${digest}`) })).error,
    ).toBeUndefined()
    expect(await platformIn('by-digest')).toBe('own\n')
    const isOwn = ({ platform }: Listed) =>
      platform.architecture === (process.arch === 'x64' ? 'amd64' : 'arm64')
    for (const listed of manifests) {
      const { layers } = await manifestOf('platforms', listed.digest)
      expect(faulty.sent.includes(layers.at(-1)?.digest ?? '')).toBe(isOwn(listed))
    }
  })

  test('can be an archive that a client sends', async () => {
    const archive = execFileSync('tar', ['-C', nested, '-cf', '-', '.'], { maxBuffer: 1e9 })
    const image = `upload:${await upload(server, tenant, archive)}`
    expect((await build({ name: 'sent-platforms', image })).error).toBeUndefined()
    expect(await platformIn('sent-platforms')).toBe('own\n')
  })

  test('is refused when it is for other platforms, which are named', async () => {
    const foreign = mkdtempSync(join(registry.directory, 'foreign-'))
    const other = [makeLayer([{ path: 'platform', content: 'other\n' }])]
    writeIndex(foreign, { other })
    const image = registry.pushLayout('foreign:1', foreign)
    const template = await build({ name: 'foreign', image })
    expect(template).toMatchObject({ state: 'failed', error: expect.stringMatching(/no image for linux\//) })
  })
})

test('layers that are compressed with zstd are unpacked', async () => {
  const image = registry.push(
    'zstd:1',
    [busyboxLayer, makeLayer([{ path: 'z', content: 'packed\n' }])],
    {
      Env: ['PATH=/bin'],
    },
    { compression: 'zstd' },
  )
  expect(await build({ name: 'zstd', image })).toMatchObject({ state: 'ready' })
  const { id } = await server.ok('/v1/sandboxes', { json: { template: 'zstd' }, key: tenant })
  expect((await run(server, { id, key: tenant }, 'cat /z')).stdout).toBe('packed\n')
})

test('a layer of 2 GiB is pulled and unpacked', async () => {
  const packed = join(registry.directory, 'large.zst')
  const diffId = await writeLargeLayer(packed, { path: 'large', bytes: LARGE_BYTES })
  const zstd = { compression: 'zstd', isCompressed: true } as const
  const base = execFileSync('zstd', ['-c'], { input: busyboxLayer, maxBuffer: 1e9 })
  const image = registry.push(
    'large:1',
    [base, readFileSync(packed)],
    { Env: ['PATH=/bin'] },
    { ...zstd, diffIds: [digestOf(busyboxLayer), diffId] },
  )
  expect((await build({ name: 'large', image }, server.key)).error).toBeUndefined()
  const { id } = await server.ok('/v1/sandboxes', { json: { template: 'large' } })
  const code = `stat -c %s /large; dd if=/large bs=1 skip=${LARGE_BYTES - 1} count=1 2>/dev/null`
  expect((await run(server, { id, key: server.key }, code)).stdout).toBe(`${LARGE_BYTES}\nx`)
  await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  await server.ok('/v1/templates/large', { method: 'DELETE' })
})

/** Complete blobs in the directories of pulls. Layers that are here already are placeholders without content. */
function arrivedBlobs(): string[] {
  const { pullsDir } = server.factory.layout
  const layouts = existsSync(pullsDir) ? readdirSync(pullsDir).map((name) => join(pullsDir, name)) : []
  return layouts
    .map((path) => join(path, 'layout/blobs/sha256'))
    .flatMap((path) => (existsSync(path) ? readdirSync(path).map((name) => join(path, name)) : []))
    .filter((path) => statSync(path).blocks > 0)
}

describe('a registry that breaks', () => {
  test('once in the middle of a layer costs the pull only another try', async () => {
    const image = pushLarge('hiccup')
    faulty.fault = { cutAfterBytes: 700_000, cutsOnce: true }
    const template = await build({ name: 'hiccup', image })
    expect(template.error).toBeUndefined()
    expect(template.logTail).toContain('The connection to the registry was cut')
  })

  test('in the middle of a layer fails the pull, and the next one works', async () => {
    const image = pushLarge('cut')
    faulty.fault = { cutAfterBytes: 700_000 }
    const broken = await build({ name: 'cut', image })
    expect(broken).toMatchObject({ state: 'failed', error: expect.stringMatching(/EOF|reset|closed/) })
    faulty.fault = {}
    expect(await build({ name: 'cut', image })).toMatchObject({ state: 'ready' })
  })

  test('when some layers have arrived fails the pull, and the next one fetches only the others', async () => {
    const names = ['a', 'b', 'c', 'd'].map((name) => `midway-${name}`)
    const small = names.map((name) => makeLayer([{ path: name, content: noise(name, 8) }]))
    const large = makeLayer([{ path: 'midway-large', content: noise('midway-large', 32) }])
    registry.push('midway:1', [busyboxLayer, ...small, large], { Env: ['PATH=/bin'] })
    const image = `${faulty.host}/midway:1`
    faulty.fault = { stallAfterBytes: 20 * 32_768 }
    await server.ok('/v1/templates', { json: { name: 'midway', image }, key: tenant })
    // Files get these names when they are complete. The layer of busybox may be here from another test.
    await expect.poll(() => arrivedBlobs().length, { timeout: 60_000 }).toBeGreaterThanOrEqual(names.length)
    await expect.poll(() => faulty.stalled, { timeout: 60_000 }).toBeGreaterThan(0)
    // How much has arrived is looked at every two seconds: the small layers, and the large one as far as it came.
    const progress = async () => {
      const { logTail } = await server.ok('/v1/templates/midway', { key: tenant })
      const [, ...said] = [...logTail.matchAll(/Pulled (\d\.\d) of (\d\.\d) MB/g)].at(-1) ?? []
      return said.map(Number)
    }
    await expect.poll(async () => (await progress())[0], { timeout: 60_000 }).toBeGreaterThan(1)
    const [arrived = 0, total = 0] = await progress()
    expect(arrived).toBeLessThan(total)
    expect(total).toBeGreaterThan(2)
    faulty.die()
    expect(await builtTemplate(server, 'midway', tenant)).toMatchObject({ state: 'failed' })
    faulty.fault = {}
    faulty.sentBytes = 0
    expect(await build({ name: 'midway', image })).toMatchObject({ state: 'ready' })
    const largeBytes = gzipSync(large, { level: 1 }).length
    expect(faulty.sentBytes).toBeGreaterThanOrEqual(largeBytes)
    // The configuration, which is small, comes again.
    expect(faulty.sentBytes).toBeLessThan(largeBytes + 10_000)
  })

  test('and is gone fails the pull, which works when the registry is back', async () => {
    const image = registry.push('gone:1', [busyboxLayer])
    await registry.stop()
    expect(await build({ name: 'gone', image })).toMatchObject({ state: 'failed' })
    await registry.begin()
    expect(await build({ name: 'gone', image })).toMatchObject({ state: 'ready' })
  })

  test('and sends other bytes than it promised is not believed', async () => {
    const image = pushLarge('damaged')
    faulty.fault = { damageFromBytes: 700_000 }
    expect(await build({ name: 'damaged', image })).toMatchObject({
      state: 'failed',
      error: expect.stringMatching(/[Dd]igest/),
    })
    faulty.fault = {}
    expect(await build({ name: 'damaged', image })).toMatchObject({ state: 'ready' })
  })
})

describe('a key without admin', () => {
  let inner: Server
  let visits = 0
  beforeAll(async () => {
    inner = createServer((_request, response) => {
      visits += 1
      response.end('internal')
    })
    await new Promise<void>((resolve) => inner.listen(0, '0.0.0.0', resolve))
  })
  afterAll(() => new Promise((resolve) => inner?.close(resolve)))

  test('reaches no registry of the host or its network that the operator did not list', async () => {
    for (const image of ['127.0.0.1:1/x', '169.254.169.254/x', 'localhost:5000/x', '[::1]:5000/x'])
      expect(await build({ name: 'inner', image })).toMatchObject({
        state: 'failed',
        error: expect.stringContaining('not on the public internet'),
      })
  })

  test('is not led to services of the host by a redirect of its registry', async () => {
    const image = pushLarge('redirected')
    const { port } = inner.address() as AddressInfo
    for (const host of ['127.0.0.1', '0.0.0.0', 'localhost']) {
      faulty.fault = { redirectTo: `http://${host}:${port}/` }
      expect(await build({ name: 'redirected', image })).toMatchObject({ state: 'failed' })
    }
    expect(visits).toBe(0)
    // An administrator may reach all that the host reaches, which shows that the redirect leads there.
    expect(await build({ name: 'redirected', image }, server.key)).toMatchObject({ state: 'failed' })
    expect(visits).toBeGreaterThan(0)
  })
})
