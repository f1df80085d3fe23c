import { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { collectProcess } from '../../packages/server/src/api/guest/collect-process.ts'
import { followProcess } from '../../packages/server/src/api/guest/follow-process.ts'
import type { Sandbox } from '../../packages/server/src/sandbox/sandbox.ts'
import { BOOT_TIMEOUT_MS } from '../engine-microvm/microvm-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { TEST_ISOLATION } from '../test-isolation.ts'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const MIB = 1024 ** 2
const LIMITS = { memoryBytes: 256 * MIB, cpus: 1, pids: 512, diskBytes: 1024 * MIB, files: 100_000 }

const openMachines =
  TEST_ISOLATION === 'microvm'
    ? (stateDir: string) => MicrovmEngine.open({ dataDir: testDataDir, stateDir, preload: [] })
    : undefined

let host: TestHost
let core: TestCore
beforeAll(async () => {
  host = await testHost(openMachines)
  core = await host.open()
  // The first machine of a size boots.
  if (openMachines !== undefined) await (await create()).delete()
}, BOOT_TIMEOUT_MS)
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const create = async (change: Parameters<typeof wanted>[0] = {}): Promise<Sandbox> =>
  (await core.sandboxes.create(wanted({ limits: LIMITS, isolation: TEST_ISOLATION, ...change }), core.caller))
    .sandbox

const run = async (sandbox: Sandbox, code: string, language: 'python' | 'bash' = 'python') =>
  (await core.services.runs.start(sandbox, { code, language })).result()

const entriesOf = (sandbox: Sandbox, event: string) =>
  sandbox.ledger({ limit: 100 }).items.filter((entry) => entry.event === event)

const EAT = 'blocks = []\nwhile True: blocks.append(bytearray(2**20))'

describe('a sandbox that runs out of memory', () => {
  test('fails the run with the limit, the peak, the largest variables and the way to raise the limit', async () => {
    const sandbox = await create({ name: 'hungry' })
    await run(sandbox, 'table = bytearray(60 << 20)\nnumbers = list(range(1000))')
    const died = await run(sandbox, EAT)
    expect(died).toMatchObject({ exitCode: 137, error: { name: 'OutOfMemory' } })
    const message = died.error?.message ?? ''
    expect(message).toMatch(/memory limit of 256 MiB/)
    expect(message).toMatch(/peak (25\d|256) MiB/)
    expect(message).toMatch(/table \(bytearray, 60 MiB\)/)
    expect(message).toMatch(/variables are gone/)
    expect(message).toContain('`dormouse update hungry --memory 512MiB`')
    expect(message).toContain('limits.memoryBytes')
    expect(died.stderr).toBe(`OutOfMemory: ${message}\n`)
    expect(died.outOfMemory).toBe(message)
    expect(died.contextRestarted).toBe(message)

    expect(await sandbox.why()).toMatchObject({
      memory: { event: 'out_of_memory', limitBytes: 256 * MIB, message: expect.stringMatching(/256 MiB/) },
      summary: expect.stringMatching(/memory limit of 256 MiB/),
    })
    await expect.poll(() => entriesOf(sandbox, 'out_of_memory')).toHaveLength(1)
    expect(entriesOf(sandbox, 'out_of_memory')[0]?.detail).toMatch(/memory limit of 256 MiB/)
    await sandbox.delete()
  })

  test('says so of a command and of a bash run, and not of a process that was killed otherwise', async () => {
    const sandbox = await create()
    const eat = `exec python3 -c 'b = bytearray(400 << 20)'`
    const start = (shell: string) =>
      sandbox.use({ cause: 'process', what: 'a test' }, (guest) => guest.processes.start({ shell }))
    const end = async (shell: string) => {
      const processId = await start(shell)
      const { signal } = new AbortController()
      return collectProcess({ processId, pid: 1 }, followProcess(sandbox, processId, { signal }))
    }
    expect(await end('kill -9 $$')).not.toHaveProperty('outOfMemory')
    expect(await end(eat)).toMatchObject({
      exitCode: 137,
      signal: 'SIGKILL',
      outOfMemory: expect.stringMatching(/memory limit of 256 MiB/),
    })
    expect(await end('kill -9 $$')).not.toHaveProperty('outOfMemory')
    const bash = await run(sandbox, eat, 'bash')
    expect(bash).toMatchObject({ exitCode: 137, outOfMemory: expect.stringMatching(/--memory 512MiB/) })
    const killed = await run(sandbox, 'import os; os.kill(os.getpid(), 9)')
    expect(killed).toMatchObject({ exitCode: 137, error: { name: 'KernelDied' } })
    expect(killed).not.toHaveProperty('outOfMemory')
    await sandbox.delete()
  })
})

describe('a sandbox that comes near its memory limit', () => {
  test('is warned about before it is killed, and again after it had more room', async () => {
    const sandbox = await create()
    const grow =
      'import time\nblocks = []\nfor _ in range(113): blocks.append(bytearray(2 << 20)); time.sleep(0.005)'
    await run(sandbox, grow)
    await expect.poll(() => entriesOf(sandbox, 'memory_high'), { timeout: 5_000 }).toHaveLength(1)
    expect(entriesOf(sandbox, 'memory_high')[0]?.detail).toMatch(/2\d\d MiB of 256 MiB \(\d\d %\)/)
    expect(await sandbox.why()).toMatchObject({
      memory: { event: 'memory_high', limitBytes: 256 * MIB },
      summary: expect.stringMatching(/2\d\d MiB of 256 MiB.*dormouse update sb-\w+ --memory 512MiB/),
    })
    await run(sandbox, 'del blocks')
    await expect.poll(async () => (await sandbox.why()).memory, { timeout: 5_000 }).toBeUndefined()
    await run(sandbox, grow)
    await expect.poll(() => entriesOf(sandbox, 'memory_high'), { timeout: 5_000 }).toHaveLength(2)
    expect(entriesOf(sandbox, 'out_of_memory')).toHaveLength(0)
    await sandbox.delete()
  })

  test('is not warned about when Linux can give the memory back', async () => {
    const sandbox = await create()
    await run(sandbox, 'head -c 400M /dev/zero > /tmp/file && cat /tmp/file > /dev/null', 'bash')
    for (let round = 0; round < 4; round += 1) await sandbox.sample()
    expect((await sandbox.metrics({ withMemory: false })).usage?.memoryBytes).toBeGreaterThan(200 * MIB)
    expect(entriesOf(sandbox, 'memory_high')).toHaveLength(0)
    await sandbox.delete()
  })
})

describe('a sandbox that is paused at its memory limit', () => {
  const GROW = `
import time
kept = 'kept'
blocks = []
for _ in range(400): blocks.append(bytearray(1 << 20))
print(kept, len(blocks))`

  const sleeping = (sandbox: Sandbox) =>
    expect.poll(() => sandbox.view().state, { timeout: 60_000 }).toBe('standby')

  test('sleeps, refuses to wake, survives a restart of the server, and ends its run when the limit is raised', async () => {
    const sandbox = await create({ name: 'grows', atMemoryLimit: 'pause' })
    const started = await core.services.runs.start(sandbox, { code: GROW, language: 'python' })
    await expect(started.result()).rejects.toMatchObject({
      code: 'memory_limit',
      message: expect.stringMatching(/memory limit of 256 MiB and was paused\. The run is not over\./),
      hint: expect.stringContaining('dormouse update grows --memory 512MiB'),
      details: { runId: started.runId, limitBytes: 256 * MIB },
    })
    expect(sandbox.view()).toMatchObject({ state: 'standby', tier: 'stored', atMemoryLimit: 'pause' })
    const { runId } = started

    core = await core.restart()
    const again = core.sandboxes.get('grows', core.caller) as Sandbox
    expect(entriesOf(again, 'slept')).toMatchObject([{ cause: 'memory_limit', tier: 'stored' }])
    expect(await again.why()).toMatchObject({
      memory: { event: 'paused', limitBytes: 256 * MIB },
      summary: expect.stringMatching(/was paused.*--memory 512MiB/),
    })
    await expect(run(again, '1')).rejects.toMatchObject({ code: 'memory_limit' })
    await expect(again.resume('resume')).rejects.toMatchObject({ code: 'memory_limit' })
    await again.update({ limits: { cpus: 2 } })
    expect(again.view().state).toBe('standby')

    expect(await again.update({ limits: { memoryBytes: 768 * MIB } })).toMatchObject({ state: 'running' })
    const result = await core.services.runs.get(again, runId).result()
    expect(result).toMatchObject({ exitCode: 0, stdout: 'kept 400\n', runId })
    expect(await run(again, 'print(kept)')).toMatchObject({ stdout: 'kept\n' })
    expect(entriesOf(again, 'out_of_memory')).toHaveLength(0)
    await again.delete()
  })

  test('is paused while a command grows, and a policy that is changed back lets Linux kill', async () => {
    const sandbox = await create()
    await sandbox.update({ atMemoryLimit: 'pause' })
    const { signal } = new AbortController()
    const eat = (name: string) =>
      sandbox.use({ cause: 'process', what: name }, (guest) =>
        guest.processes.start({ shell: `exec python3 -c 'b = bytearray(400 << 20); print(len(b))'` }),
      )
    const first = await eat('first')
    const follow = (processId: string) =>
      collectProcess({ processId, pid: 1 }, followProcess(sandbox, processId, { signal }))
    await expect(follow(first)).rejects.toMatchObject({ code: 'memory_limit' })
    await sleeping(sandbox)
    await sandbox.update({ limits: { memoryBytes: 512 * MIB } })
    expect(await follow(first)).toMatchObject({ exitCode: 0, stdout: `${400 * MIB}\n` })
    await sandbox.update({ atMemoryLimit: 'kill', limits: { memoryBytes: 256 * MIB } })
    expect(await follow(await eat('second'))).toMatchObject({
      exitCode: 137,
      outOfMemory: expect.any(String),
    })
    await sandbox.delete()
  })

  test('can be deleted and rolled back without more memory', async () => {
    const sandbox = await create({ atMemoryLimit: 'pause' })
    const { id } = await sandbox.snapshot({ name: undefined, kind: 'full' })
    const started = await core.services.runs.start(sandbox, { code: GROW, language: 'python' })
    await expect(started.result()).rejects.toMatchObject({ code: 'memory_limit' })
    await sandbox.rollback(id)
    expect(await run(sandbox, 'print("kept" in globals())')).toMatchObject({ stdout: 'False\n' })
    await sandbox.delete()
  })
})
