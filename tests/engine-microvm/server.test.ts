import { readFile } from 'node:fs/promises'
import { LinuxEngine } from '@dormouse/engine-linux'
import { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from '../server/test-core.ts'
import { testDataDir } from '../test-data-dir.ts'
import { BOOT_TIMEOUT_MS, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const MIB = 1024 ** 2
const GIB = 1024 ** 3

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

  test('what its kernel cannot do is refused with a code and changes nothing', async () => {
    const before = core.sandboxes.list({ limit: 100 }, core.caller)
    const refused = (field: string) => ({ code: 'isolation_unsupported', details: { field } })
    await expect(create({ isolation: 'microvm', wakeOnTimer: true })).rejects.toMatchObject(
      refused('wakeOnTimer'),
    )
    expect(core.sandboxes.list({ limit: 100 }, core.caller)).toEqual(before)
    const sandbox = await create({ isolation: 'microvm' })
    await runIn(core, sandbox, 'x = bytearray(b"x") * (300 << 20)')
    const tooMuch = sandbox.update({ limits: { memoryBytes: 3 * GIB } })
    await expect(tooMuch).rejects.toMatchObject(refused('memoryBytes'))
    await expect(sandbox.update({ wakeOnTimer: true })).rejects.toMatchObject(refused('wakeOnTimer'))
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    const asleep = sandbox.update({ limits: { memoryBytes: 3 * GIB } })
    await expect(asleep).rejects.toMatchObject(refused('memoryBytes'))
    expect(sandbox.view()).toMatchObject({ wakeOnTimer: false, limits: { memoryBytes: GIB } })
    // Less than its programs use: they would be killed.
    await sandbox.update({ limits: { memoryBytes: 256 * MIB } })
    await expect(sandbox.resume('resume')).rejects.toMatchObject({ code: 'conflict' })
    await sandbox.update({ limits: { memoryBytes: GIB } })
    expect(await runIn(core, sandbox, 'print(len(x))')).toBe(`${300 << 20}\n`)
    await sandbox.delete()
  })

  test('a microVM is paused at its memory limit, and its run ends when the limit is raised', async () => {
    const sandbox = await create({ isolation: 'microvm' })
    // Lowered later: another limit from the beginning would boot another machine.
    await sandbox.update({ atMemoryLimit: 'pause', limits: { memoryBytes: 256 * MIB } })
    const code = 'kept = []\nfor _ in range(400): kept.append(bytearray(1 << 20))\nprint(len(kept))'
    const started = await core.services.runs.start(sandbox, { code, language: 'python' })
    await expect(started.result()).rejects.toMatchObject({ code: 'memory_limit' })
    expect(sandbox.view()).toMatchObject({ state: 'standby', tier: 'stored' })
    expect(await sandbox.why()).toMatchObject({ memory: { event: 'paused', limitBytes: 256 * MIB } })
    expect(await sandbox.update({ limits: { memoryBytes: 768 * MIB } })).toMatchObject({ state: 'running' })
    const result = await core.services.runs.get(sandbox, started.runId).result()
    expect(result).toMatchObject({ exitCode: 0, stdout: '400\n' })
    await sandbox.delete()
  })

  test('limits that change while it is frozen apply when it runs again, and programs see them', async () => {
    const sandbox = await create({ isolation: 'microvm' })
    const seen = 'print(open("/sys/fs/cgroup/memory.max").read(), open("/sys/fs/cgroup/pids.max").read())'
    expect(await runIn(core, sandbox, seen)).toBe(`${GIB}\n 512\n\n`)
    await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    await sandbox.update({ limits: { memoryBytes: 1.5 * GIB, pids: 300 } })
    await expect.poll(() => runIn(core, sandbox, seen)).toBe(`${1.5 * GIB}\n 300\n\n`)
    await sandbox.delete()
  })

  test('a microVM over its limit of files is put to standby', async () => {
    const limits = { ...wanted().limits, files: 500 }
    const sandbox = await create({ isolation: 'microvm', limits })
    // On a busy host it sleeps before its run has ended, which then waits for it to wake.
    const run = runIn(core, sandbox, 'for n in range(1000): open(f"/root/{n}", "w").close()')
    run.catch(() => {})
    await expect.poll(() => sandbox.view().state, { timeout: 60_000 }).toBe('standby')
    expect(sandbox.ledger({ limit: 10 }).items.at(-1)).toMatchObject({ event: 'slept', cause: 'disk' })
    await sandbox.delete()
  })

  test('files of a sleeping microVM are read without waking it or running its programs', async () => {
    const sandbox = await create({ isolation: 'microvm' })
    const code = `import os, threading, time
os.makedirs("/root/tree"); open("/root/tree/kept", "w").write("kept" * 1000)
def count():
    for n in range(10**9): open("/root/count", "w").write(str(n)); time.sleep(0.001)
threading.Thread(target=count, daemon=True).start()`
    await runIn(core, sandbox, code)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    const use = { cause: 'files', what: 'a test' } as const
    const { files } = sandbox.reader
    const read = (path: string) =>
      files.use(use, async (guest) => {
        const chunks: Uint8Array[] = []
        for await (const chunk of (await guest.files.open(path)).data) chunks.push(chunk)
        return Buffer.concat(chunks).toString()
      })
    const counted = await read('/root/count')
    expect(await read('/root/tree/kept')).toBe('kept'.repeat(1000))
    expect(await read('/root/count')).toBe(counted)
    const names = await files.use(use, async (guest) => {
      const found: string[] = []
      for await (const { name } of guest.files.list('/root/tree')) found.push(name)
      return found
    })
    expect(names).toEqual(['kept'])
    await expect(read('/root/none')).rejects.toMatchObject({ code: 'not_found' })
    expect(sandbox.view()).toMatchObject({ state: 'standby', tier: 'stored' })
    // The machine that read them is not one of the sandbox's.
    core = await core.restart()
    const again = core.sandboxes.get(sandbox.id, core.caller)
    expect(again.view()).toMatchObject({ state: 'standby', tier: 'stored' })
    expect(await runIn(core, again, 'print(len(open("/root/tree/kept").read()))')).toBe('4000\n')
    await again.delete()
  })

  test('a frozen microVM is stored when memory is low; ledger, usage and `why` say what happened', async () => {
    const [, kib] = /^MemAvailable:\s+(\d+) kB$/m.exec(await readFile('/proc/meminfo', 'latin1')) ?? []
    await core[Symbol.asyncDispose]()
    core = await host.open({ minFreeMemoryBytes: Math.round(Number(kib) * 1024 * 0.8) })
    const sandbox = await create({ isolation: 'microvm', storeAfterMs: 3_600_000 })
    await runIn(core, sandbox, 'x = bytearray(b"x") * (50 << 20)')
    const { usage, memory } = await sandbox.metrics({ withMemory: true })
    expect(usage?.cpuMs).toBeGreaterThan(0)
    expect(usage?.memoryBytes).toBeGreaterThan(50 * MIB)
    expect(memory?.privateBytes).toBeGreaterThan(50 * MIB)
    expect(await sandbox.why()).toMatchObject({ state: 'running', summary: expect.any(String) })
    await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    await expect.poll(() => sandbox.view().tier, { timeout: 60_000 }).toBe('stored')
    await sandbox.resume('resume')
    const known = { latencyMs: expect.any(Number), bytes: expect.any(Number) }
    expect(sandbox.ledger({ limit: 10 }).items).toMatchObject([
      { event: 'created', latencyMs: expect.any(Number) },
      { event: 'slept', tier: 'frozen', cause: 'asked', ...known },
      { event: 'stored', cause: 'memory' },
      { event: 'woke', tier: 'stored', cause: 'resume', ...known },
    ])
    expect(await runIn(core, sandbox, 'print(len(x))')).toBe(`${50 << 20}\n`)
    await sandbox.delete()
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

test('a server that forbids processes refuses new ones, however they are asked for; old ones continue', async () => {
  const host = await testHost()
  let core = await host.open()
  const create = async (change: Parameters<typeof wanted>[0] = {}) =>
    (await core.sandboxes.create(wanted(change), core.caller)).sandbox
  const { id } = await create()
  const { id: snapshotId } = await core.sandboxes
    .get(id, core.caller)
    .snapshot({ name: undefined, kind: 'full' })
  await core[Symbol.asyncDispose]()
  core = await host.open({ processIsolation: 'forbidden' })
  const refused = { code: 'isolation_forbidden', details: { field: 'isolation' } }
  await expect(create({ isolation: 'process' })).rejects.toMatchObject(refused)
  await expect(create()).rejects.toMatchObject(refused)
  await expect(create({ snapshotId })).rejects.toMatchObject(refused)
  // The step of a build is a sandbox, and processes build every template.
  const { templates } = core.services
  const nothing = { packages: [], pip: [], preload: [] }
  await templates.build({ name: 'built', commands: ['true'], ...nothing }, core.caller)
  const built = () => templates.get('built', core.caller)
  await expect.poll(async () => (await built()).state, { timeout: 60_000 }).toBe('failed')
  expect((await built()).error).toContain('starts no sandbox that shares the kernel of its host')
  const old = core.sandboxes.get(id, core.caller)
  expect(await runIn(core, old, 'print(6 * 7)')).toBe('42\n')
  await old.delete()
  await core[Symbol.asyncDispose]()
  await host.cleanUp()
})
