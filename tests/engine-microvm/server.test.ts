import { LinuxEngine } from '@dormouse/engine-linux'
import { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from '../server/test-core.ts'
import { testDataDir } from '../test-data-dir.ts'
import { BOOT_TIMEOUT_MS, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()

// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`a server with two engines${missing ? `: ${missing}` : ''}`, () => {
  let host: TestHost
  let core: TestCore

  beforeAll(async () => {
    host = await testHost((stateDir) => MicrovmEngine.open({ dataDir: testDataDir, stateDir, preload: [] }))
    core = await host.open()
    await (await create({ isolation: 'microvm' })).delete()
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await core[Symbol.asyncDispose]()
    await host.cleanUp()
  })

  const create = async (change: Parameters<typeof wanted>[0] = {}) =>
    (await core.sandboxes.create(wanted({ network: { mode: 'none', allow: [] }, ...change }), core.caller))
      .sandbox

  test('sandboxes of both isolations run side by side, and each says which it has', async () => {
    const [shared, own] = [await create(), await create({ isolation: 'microvm' })]
    expect([shared.view().isolation, own.view().isolation]).toEqual(['process', 'microvm'])
    const kernel = 'import os; print(os.uname().release)'
    const [hosts, guests] = [await runIn(core, shared, kernel), await runIn(core, own, kernel)]
    expect(guests).toContain('cloud')
    expect(guests).not.toBe(hosts)
    await shared.delete()
    await own.delete()
  })

  test('a microVM sleeps, outlives its server, wakes and forks with its variables', async () => {
    const sandbox = await create({ isolation: 'microvm', name: 'vm' })
    await runIn(core, sandbox, 'import os; x = 41; ring = open("/root/kept", "w").write("kept")')
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    expect(sandbox.view().state).toBe('standby')
    core = await core.restart()
    const again = core.sandboxes.get('vm', core.caller)
    expect(await runIn(core, again, 'print(x + 1, open("/root/kept").read())')).toBe('42 kept\n')
    const [child] = await again.fork({ count: 1, reseed: true })
    expect(child?.isolation).toBe('microvm')
    const forked = core.sandboxes.get(child!.id, core.caller)
    expect(await runIn(core, forked, 'print(x)')).toBe('41\n')
    await forked.delete()
    await again.delete()
  })

  test('sandboxes of both isolations share a volume, which is attached and detached meanwhile', async () => {
    await core.services.volumes.create({ name: 'data' }, core.caller)
    const volumes = [{ volume: 'data', path: '/data', readOnly: false }]
    const [shared, own] = [await create({ volumes }), await create({ isolation: 'microvm', volumes })]
    await runIn(core, own, 'f = open("/data/f", "w+"); n = f.write("from the machine"); f.flush()')
    expect(await runIn(core, shared, 'print(open("/data/f").read())')).toBe('from the machine\n')
    await own.standby({ tier: 'stored', cause: 'asked' })
    await runIn(core, shared, 'n = open("/data/f", "a").write(", longer")')
    expect(await runIn(core, own, 'print(f.seek(0), f.read())')).toBe('0 from the machine, longer\n')
    await expect(core.services.volumes.delete('data', core.caller)).rejects.toMatchObject({ code: 'in_use' })
    await own.update({ volumes: [] })
    expect(await runIn(core, own, 'import os; print(os.listdir("/data"))')).toBe('[]\n')
    await own.update({ volumes: [{ volume: 'data', path: '/elsewhere', readOnly: true }] })
    expect(await runIn(core, own, 'print(os.listdir("/elsewhere"))')).toBe("['f']\n")
    await own.delete()
    await shared.delete()
    await core.services.volumes.delete('data', core.caller)
  })

  test.each([
    ['waking for timers', { wakeOnTimer: true }],
    ['a pause at the memory limit', { atMemoryLimit: 'pause' as const }],
  ])('%s is refused with a code, and nothing is created', async (_what, change) => {
    const before = core.sandboxes.list({ limit: 100 }, core.caller)
    await expect(create({ isolation: 'microvm', ...change })).rejects.toMatchObject({
      code: 'isolation_unsupported',
    })
    expect(core.sandboxes.list({ limit: 100 }, core.caller)).toEqual(before)
  })
})

test('a server without the second engine refuses it, and says what to do', async () => {
  const host = await testHost()
  const core = await host.open()
  const refused = { code: 'isolation_unavailable', hint: expect.stringContaining('--isolation microvm') }
  const created = core.sandboxes.create(wanted({ isolation: 'microvm' }), core.caller)
  await expect(created).rejects.toMatchObject(refused)
  // The template asks for it, and the sandbox may say otherwise.
  const asking = vi.spyOn(LinuxEngine.prototype, 'isolationOfTemplate').mockResolvedValue('microvm')
  await expect(core.sandboxes.create(wanted(), core.caller)).rejects.toMatchObject(refused)
  const { sandbox } = await core.sandboxes.create(wanted({ isolation: 'process' }), core.caller)
  expect(sandbox.view().isolation).toBe('process')
  await sandbox.delete()
  asking.mockRestore()
  await core[Symbol.asyncDispose]()
  await host.cleanUp()
})
