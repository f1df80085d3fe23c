import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SnapshotId } from '@dormouse/contracts'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { buildTemplate, builtTemplate } from './build-template.ts'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
let tenant: string
beforeAll(async () => {
  server = await ServerProcess.start({ builds: { atOnce: 2, memoryBytes: 512 * 1024 ** 2 } })
  tenant = (await server.ok('/v1/keys', { json: { name: 'tenant', scopes: ['run'] } })).key
})
afterEach(async () => {
  await server.clear()
  await expectNothingLeft()
})
afterAll(() => server?.cleanUp())

/** Of builds that failed or were cut off, and of templates that were deleted. */
async function expectNothingLeft(): Promise<void> {
  const { layout } = server.factory
  expect((await server.ok('/v1/sandboxes')).items).toEqual([])
  expect((await server.ok('/v1/snapshots')).items).toEqual([])
  expect(await server.factory.traces()).toEqual([])
  expect(readdirSync(layout.snapshotsDir)).toEqual([])
  await expect.poll(() => readdirSync(layout.layersDir), { timeout: 10_000 }).toEqual([])
}

/** A command that waits until the test lets it continue. */
const WAIT = 'touch /srv/waiting; until [ -e /srv/go ]; do sleep 0.05; done'

/** The sandbox of a build that waits. */
async function waitingSandbox(key = server.key) {
  for (;;) {
    const [sandbox] = (await server.ok('/v1/sandboxes', { key })).items
    if (sandbox?.state === 'running' && (await isWaiting(sandbox.id, key))) return sandbox
    await sleep(20)
  }
}

async function isWaiting(id: string, key: string): Promise<boolean> {
  const answer = await server.call(`/v1/sandboxes/${id}/files/stat?path=/srv/waiting`, { key })
  return answer.status === 200
}

const letGo = async (id: string, key = server.key) => {
  const answer = await server.fetch(`/v1/sandboxes/${id}/files?path=/srv/go`, {
    method: 'PUT',
    body: '',
    key,
  })
  expect(answer.status).toBeLessThan(300)
}

// A repository of one Debian package and one wheel, made inside: builds of the suite reach nothing outside.
const REPOSITORY = `
mkdir -p /srv/repo/p/DEBIAN /srv/wheels && cd /srv/repo
printf 'Package: dormouse-hello\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a <a@example.org>\\nDescription: x\\n' > p/DEBIAN/control
mkdir -p p/usr/bin && printf '#!/bin/sh\\necho hello from a package\\n' > p/usr/bin/dormouse-hello && chmod 755 p/usr/bin/dormouse-hello
dpkg-deb --build --root-owner-group p dormouse-hello_1.0_all.deb && rm -r p
(dpkg-deb --field dormouse-hello_1.0_all.deb; echo "Filename: ./dormouse-hello_1.0_all.deb"
 echo "Size: $(stat -c %s dormouse-hello_1.0_all.deb)"; echo "SHA256: $(sha256sum < dormouse-hello_1.0_all.deb | cut -d' ' -f1)") > Packages
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] copy:/srv/repo ./' > /etc/apt/sources.list
python3 - <<'EOF'
import zipfile
with zipfile.ZipFile('/srv/wheels/dormouse_wheel-2.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('dormouse_wheel.py', 'greeting = "hello from a wheel"\\n')
    info = 'dormouse_wheel-2.0.dist-info/'
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: dormouse_wheel\\nVersion: 2.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', '')
EOF
printf '[global]\\nbreak-system-packages = true\\nno-index = true\\nfind-links = /srv/wheels\\n' > /etc/pip.conf
`

test('a template is built on another one, from packages of Debian and of Python, and says what it was built from', async () => {
  const base = await buildTemplate(server, { name: 'base', commands: [REPOSITORY] }, tenant)
  expect(base).toMatchObject({ state: 'ready', source: 'description', from: 'python' })
  const made = await buildTemplate(
    server,
    {
      name: 'made',
      from: 'base',
      packages: ['dormouse-hello'],
      pip: ['dormouse-wheel'],
      commands: ['dormouse-hello > /srv/said'],
      preload: ['dormouse_wheel'],
    },
    tenant,
  )
  expect(made).toMatchObject({ state: 'ready', from: 'base' })
  const json = { name: 'one', template: 'made', idleTimeoutMs: 0 }
  await server.ok('/v1/sandboxes', { json, key: tenant })
  const run = await server.ok('/v1/sandboxes/one/run', {
    json: {
      code: 'import sys; print(open("/srv/said").read(), [m in sys.modules for m in ("dormouse_wheel", "pandas")])',
    },
    key: tenant,
  })
  // What the built-in template starts with is there as well.
  expect(run.stdout).toBe('hello from a package\n [True, True]\n')
  const { items, count, sha256 } = await server.ok('/v1/templates/made/materials', { key: tenant })
  expect(made.materials).toEqual({ count, sha256 })
  const digest = expect.stringMatching(/^[0-9a-f]{64}$/)
  expect(items).toContainEqual({
    type: 'deb',
    name: 'dormouse-hello',
    version: '1.0',
    architecture: 'all',
    sha256: digest,
  })
  expect(items).toContainEqual({ type: 'wheel', name: 'dormouse-wheel', version: '2.0', sha256: digest })
  const built = await server.ok('/v1/templates/python/materials')
  expect(count).toBe(built.count + 2)
  expect(built.items.every((item: { sha256?: string }) => item.sha256 !== undefined)).toBe(true)
  expect((await server.ok('/v1/templates/python')).materials).toEqual({
    count: built.count,
    sha256: built.sha256,
  })

  // It is its key's own; its base may go before it, but not before its sandboxes.
  const { key: stranger } = await server.ok('/v1/keys', { json: { name: 'stranger', scopes: ['run'] } })
  const refused = await server.call('/v1/sandboxes', { json: { template: 'made' }, key: stranger })
  expect(refused.body.error.code).toBe('template_not_found')
  const onIt = await server.call('/v1/templates', { json: { name: 'x', from: 'made' }, key: stranger })
  expect(onIt.body.error.code).toBe('template_not_found')
  const remove = (path: string) => server.call(path, { method: 'DELETE', key: tenant })
  expect((await remove('/v1/templates/base')).status).toBe(204)
  expect((await remove('/v1/templates/made')).body.error.code).toBe('in_use')
  expect((await server.ok('/v1/sandboxes', { json: { template: 'made' }, key: tenant })).state).toBe(
    'running',
  )
})

describe('a build that fails', () => {
  test('says which command failed, and how its output ended', async () => {
    const failed = await buildTemplate(server, {
      name: 'broken',
      commands: ['true', "seq 1 1000; printf '\\033[2Jthe reason\\n' >&2; exit 7", 'touch /srv/never'],
    })
    expect(failed).toMatchObject({
      state: 'failed',
      error: expect.stringMatching(/^command 2 of 3: seq .*exit code 7\. Its last output: the reason$/),
    })
    const tail = failed.logTail.split('\n')
    expect(tail.at(-1)).toBe('the reason')
    expect(tail.at(-2)).toBe('1000')
    // Its name is free again.
    expect((await buildTemplate(server, { name: 'broken', commands: ['true'] })).state).toBe('ready')
  })

  test('names a module that cannot be imported, with its traceback', async () => {
    const failed = await buildTemplate(server, {
      name: 'broken',
      commands: ['echo "raise ValueError(\'because\')" > /usr/lib/python3/dist-packages/breaks.py'],
      preload: ['json', 'breaks'],
    })
    expect(failed).toMatchObject({ state: 'failed', error: 'These modules cannot be imported: breaks.' })
    expect(failed.logTail).toContain('ValueError: because')
  })

  test('does so before it begins when a quota has no room for it', async () => {
    const quotas = { memoryBytes: 256 * 1024 ** 2 }
    const { key } = await server.ok('/v1/keys', { json: { name: 'small', scopes: ['run'], quotas } })
    const refused = await server.call('/v1/templates', { json: { name: 'mine', commands: ['true'] }, key })
    expect(refused.body.error.code).toBe('limit_reached')
    expect((await server.call('/v1/templates/mine', { key })).status).toBe(404)
  })

  test('learns when its sandbox is deleted', async () => {
    await server.ok('/v1/templates', { json: { name: 'broken', commands: [WAIT] } })
    const { id } = await waitingSandbox()
    await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
    expect(await builtTemplate(server, 'broken')).toMatchObject({
      state: 'failed',
      error: 'The sandbox of the build was deleted.',
    })
  })
})

test('two keys build at once, with the limits and the network of builds; a third build waits for its turn', async () => {
  await server.ok('/v1/templates', { json: { name: 'a', commands: [WAIT] }, key: tenant })
  const one = await waitingSandbox(tenant)
  expect(one.limits).toMatchObject({ memoryBytes: 512 * 1024 ** 2, cpus: 2, pids: 1024 })
  expect(one.network.mode).toBe('allow')
  expect(one.network.allow).toContain('files.pythonhosted.org:443')
  const again = { json: { name: 'b', commands: ['true'] }, key: tenant }
  expect((await server.call('/v1/templates', again)).body.error.code).toBe('overloaded')
  const other = await buildTemplate(server, {
    name: 'a',
    network: { mode: 'none' },
    commands: ['echo 2 > /srv/n'],
  })
  expect(other.state).toBe('ready')
  await letGo(one.id, tenant)
  expect((await builtTemplate(server, 'a', tenant)).state).toBe('ready')
  expect(await buildTemplate(server, { name: 'b', commands: ['true'] }, tenant)).toMatchObject({
    state: 'ready',
  })
  for (const name of ['a', 'b']) await server.ok(`/v1/templates/${name}`, { method: 'DELETE', key: tenant })
})

test('deleting a template ends its build', async () => {
  await server.ok('/v1/templates', { json: { name: 'gone', commands: [WAIT] } })
  await waitingSandbox()
  expect((await server.call('/v1/templates/gone', { method: 'DELETE' })).status).toBe(204)
  await expectNothingLeft()
  expect((await server.call('/v1/templates/gone')).status).toBe(404)
})

test('a template whose processes cannot continue here boots on its files', async () => {
  const { snapshotId } = await buildTemplate(server, { name: 'moved', commands: ['echo here > /srv/it'] })
  const { manifest } = server.factory.layout.snapshot(snapshotId as SnapshotId)
  const text = readFileSync(manifest, 'utf8')
  writeFileSync(manifest, text.replace(/"criuVersion": "[^"]*"/, '"criuVersion": "99.0"'))
  await server.ok('/v1/sandboxes', { json: { name: 'booted', template: 'moved' } })
  expect(await server.run('booted', 'print(open("/srv/it").read())')).toBe('here\n\n')
  writeFileSync(manifest, text)
})

describe('kill -9 leaves nothing of a build behind:', () => {
  const expectUndone = async () => {
    await server.kill()
    await server.begin()
    expect(await builtTemplate(server, 'cut')).toMatchObject({
      state: 'failed',
      error: 'The server ended before it was built.',
    })
    await expectNothingLeft()
  }

  test('while a command runs', async () => {
    await server.ok('/v1/templates', { json: { name: 'cut', commands: ['echo x > /srv/x', WAIT] } })
    await waitingSandbox()
    await expectUndone()
  })

  test.each([
    ['before its files are saved', 'snapshot', 'before'],
    ['when its files are saved, and not on record', 'snapshot', 'after'],
    ['when it boots on its files', 'restore', 'before'],
    ['when it has booted, and is not on record', 'restore', 'after'],
  ] as const)('%s', async (_, method, when) => {
    await server.kill()
    await server.begin([{ method, when, does: 'hang' }])
    await server.ok('/v1/templates', { json: { name: 'cut', commands: ['echo x > /srv/x'] } })
    await server.struck()
    await expectUndone()
  })
})

test('a server that ends in order ends its builds', async () => {
  await server.ok('/v1/templates', { json: { name: 'cut', commands: [WAIT] } })
  await waitingSandbox()
  await server.stop()
  await server.begin()
  expect(await builtTemplate(server, 'cut')).toMatchObject({ state: 'failed' })
  await expectNothingLeft()
})
