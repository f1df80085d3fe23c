import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { MicrovmEngine } from '@dormouse/engine-microvm'
import { EnginePair } from '@dormouse/server'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { MicrovmLayout } from '../../packages/engine-microvm/src/host/microvm-layout.ts'
import { type LinuxFactory, linuxFactory } from '../engine-linux/linux-factory.ts'
import { makeLayer, writeLayout } from '../images/make-image.ts'
import { busybox, run } from '../images/test-images.ts'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { testDataDir } from '../test-data-dir.ts'
import { BOOT_TIMEOUT_MS, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const IS_WHOLE = process.env['DORMOUSE_TEST_LARGE'] === '1'
const MIB = 1024 ** 2
vi.setConfig({ testTimeout: BOOT_TIMEOUT_MS, hookTimeout: BOOT_TIMEOUT_MS })

/** What processes made into files runs in a machine, too. */
// Skip: every test boots a machine, which takes more than a minute under emulation.
describe.skipIf(missing !== undefined || !IS_WHOLE)('files of the other engine in a machine', () => {
  let factory: LinuxFactory
  let engine: EnginePair
  let scratch: string
  const { disksDir, templatesDir } = new MicrovmLayout('/', testDataDir)
  const shared = () =>
    [disksDir, templatesDir].flatMap((path) => readdirSync(path).map((name) => join(path, name)))
  let before: string[] = []

  beforeAll(async () => {
    factory = await linuxFactory()
    scratch = mkdtempSync(join(tmpdir(), 'dormouse-images-'))
    const options = { dataDir: testDataDir, stateDir: factory.stateDir, preload: [] }
    engine = new EnginePair(await factory.open(), await MicrovmEngine.open(options))
    before = shared()
  })
  afterAll(async () => {
    if (engine !== undefined)
      for (const burrow of (await engine.adoptBurrows()).burrows) await burrow.destroy()
    await engine?.[Symbol.asyncDispose]()
    await factory?.cleanUp()
    rmSync(scratch, { recursive: true, force: true })
    for (const path of shared()) if (!before.includes(path)) rmSync(path, { recursive: true })
  })

  const limits = { memoryBytes: 512 * MIB }
  const start = (id: SnapshotId, change: object = {}) =>
    engine.restore(id, {
      sandboxId: newSandboxId(),
      isolation: 'microvm',
      reason: 'create',
      limits,
      ...change,
    })
  const sh = async (burrow: Burrow, code: string) =>
    (await burrow.guest.runs.run({ code, language: 'bash' })).stdout.trim()

  test('an image without Python runs, sleeps, and boots from a snapshot of its files', async () => {
    const layers = [
      makeLayer([
        ...busybox,
        { path: 'srv/gone', content: 'gone' },
        { path: 'srv/own', content: 'w', uid: 1000 },
      ]),
      makeLayer([{ path: 'srv' }, { path: 'srv/.wh.gone', content: '' }]),
    ]
    writeLayout(join(scratch, 'busybox'), layers, {
      Env: ['PATH=/bin', 'FROM=image'],
      WorkingDir: '/srv',
      User: 'web',
    })
    const { snapshot, image } = await engine.importImage({
      ...{
        image: `oci:${join(scratch, 'busybox')}`,
        sandboxId: newSandboxId(),
        maxBytes: 64 * MIB,
        maxFiles: 1_000,
      },
    })
    const { env, cwd, user } = image
    const first = await start(snapshot.id, { image: { env, cwd, user } })
    expect(first.isolation).toBe('microvm')
    expect(
      await sh(first, 'id -u; pwd; echo $FROM; ls; stat -c %u own; cat /proc/sys/kernel/osrelease'),
    ).toBe('1000\n/srv\nimage\nown\n1000\n6.1.0-50-cloud-amd64')
    await first.guest.runs.run({ code: 'x = 41' })
    await sh(first, 'echo kept > /srv/kept || echo kept > /tmp/kept')
    const { snapshot: asleep } = await engine.snapshot(first, { leave: 'gone' })
    const woken = await engine.restore(asleep.id, { sandboxId: first.sandboxId })
    expect((await woken.guest.runs.run({ code: 'print(x + 1)' })).stdout).toBe('42\n')
    const { snapshot: files } = await engine.snapshot(woken, { kind: 'files', leave: 'gone' })
    const booted = await engine.restore(files.id, { sandboxId: woken.sandboxId })
    expect(await sh(booted, 'id -u; pwd; echo $FROM; cat /srv/kept /tmp/kept 2>/dev/null')).toBe(
      '1000\n/srv\nimage\nkept',
    )
    await booted.destroy()
    // The second sandbox of an image is restored, and knows nothing of the first.
    const second = await start(snapshot.id, { image: { env, cwd, user }, env: { MORE: 'yes' } })
    expect(await sh(second, 'echo $FROM $MORE; ls /srv /tmp')).toMatch(/^image yes\n/)
    expect(await sh(second, 'test -e /srv/kept -o -e /tmp/kept || echo clean')).toBe('clean')
    await second.destroy()
  })

  test('files that a sandbox of processes wrote have their owners and modes in a machine', async () => {
    const writer = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await sh(
      writer,
      'mkdir /opt/app && echo v1 > /opt/app/version && chown 1000:1000 /opt/app/version && chmod 640 /opt/app/version && rm /etc/motd',
    )
    const { snapshot } = await engine.snapshot(writer, { kind: 'files', leave: 'gone' })
    const burrow = await start(snapshot.id)
    expect(
      await sh(
        burrow,
        'stat -c "%u %g %a" /opt/app/version; cat /opt/app/version; test -e /etc/motd || echo none',
      ),
    ).toBe('1000 1000 640\nv1\nnone')
    await burrow.destroy()
  })

  test('a template that a server built from an image starts with either isolation', async () => {
    const server = await ServerProcess.start({})
    try {
      const layout = join(scratch, 'served')
      writeLayout(layout, [makeLayer(busybox)], { Env: ['PATH=/bin', 'FROM=image'] })
      const template = { name: 'served', image: `oci:${layout}` }
      expect(await buildTemplate(server, template)).toMatchObject({ state: 'ready' })
      for (const isolation of ['process', 'microvm']) {
        const json = { template: 'served', isolation, limits: { memoryBytes: 512 * MIB } }
        const { id, isolation: seen } = await server.ok('/v1/sandboxes', { json })
        expect(seen).toBe(isolation)
        const who = { id, key: server.key }
        const { stdout } = await run(server, who, 'echo $FROM; cat /proc/sys/kernel/osrelease')
        expect(stdout.startsWith('image\n')).toBe(true)
        expect(stdout.includes('cloud')).toBe(isolation === 'microvm')
        await server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
        expect((await run(server, who, 'echo $FROM')).stdout).toBe('image\n')
        await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
      }
    } finally {
      await server.cleanUp()
    }
  })
})
