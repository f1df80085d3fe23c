import type { Sandbox } from '@dormouse/server'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startProcess } from '../../packages/server/src/api/guest/start-process.ts'
import { useHostTime } from './host-time.ts'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const HOUR_MS = 3_600_000

const time = useHostTime()
let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})

afterEach(async () => {
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
})

afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const policy = { idleTimeoutMs: HOUR_MS, storeAfterMs: 1_000 * HOUR_MS }

async function create(change: Parameters<typeof wanted>[0] = {}) {
  return (await core.sandboxes.create(wanted({ ...policy, ...change }), core.caller)).sandbox
}

const bash = (sandbox: Sandbox, code: string) =>
  sandbox.use({ cause: 'run', what: 'a test' }, (guest) => guest.runs.run({ code, language: 'bash' }))

const start = (sandbox: Sandbox, what: Parameters<typeof startProcess>[1]) =>
  startProcess(sandbox, what, AbortSignal.timeout(60_000))

const kill = (sandbox: Sandbox, processId: string) =>
  sandbox.use({ cause: 'process', what: 'a test' }, (guest) => guest.processes.signal(processId, 'SIGKILL'))

/** Hours pass, one by one, each longer than the idle time-out. The server looks at its sandboxes after each. */
async function hoursPass(hours: number): Promise<void> {
  for (let hour = 0; hour < hours; hour += 1) {
    time.skip(1.1 * HOUR_MS)
    await time.checked()
  }
}

/** Hours pass until the sandbox sleeps. */
async function untilAsleep(sandbox: Sandbox): Promise<void> {
  await expect
    .poll(
      () => {
        time.skip(HOUR_MS / 2)
        return sandbox.row.state
      },
      { timeout: 30_000 },
    )
    .toBe('standby')
}

const processes = async (sandbox: Sandbox) =>
  (await sandbox.why()).work.filter(({ kind }) => kind === 'process').map(({ what }) => what)

test('a started command keeps its sandbox awake until it ends, and why names it', async () => {
  const sandbox = await create()
  const { pid, processId } = await start(sandbox, { command: 'sleep 100000; true' })
  expect(await processes(sandbox)).toEqual([`process ${pid} (sleep 100000; true)`])
  // The shell that starts may use CPU at this moment.
  await expect
    .poll(async () => (await sandbox.why()).summary)
    .toBe(`Awake because of process ${pid} (sleep 100000; true).`)
  await hoursPass(3)
  expect(sandbox.row.state).toBe('running')
  await kill(sandbox, processId)
  await expect.poll(() => processes(sandbox)).toEqual([])
  await untilAsleep(sandbox)
})

test('a command whose sandbox learns of its end sleeps without any call', async () => {
  const sandbox = await create()
  const { pid } = await start(sandbox, { command: 'until test -e /root/go; do sleep 0.3; done' })
  await hoursPass(1)
  expect(await processes(sandbox)).toHaveLength(1)
  // From outside the protocol, so that no call touches the sandbox.
  await bash(sandbox, `(sleep 2; kill -9 ${pid}) > /dev/null 2>&1 &`)
  await untilAsleep(sandbox)
})

test('a command that opts out does not keep it awake, nor do its orphans', async () => {
  const sandbox = await create()
  await start(sandbox, { command: 'sleep 100000', keepAwake: false })
  await start(sandbox, { command: '(setsid sleep 200000 &)', keepAwake: false })
  await bash(sandbox, 'DORMOUSE_KEEP_AWAKE=0 nohup sleep 300000 > /dev/null 2>&1 &')
  // A program that is just starting has no environment yet.
  await expect.poll(() => processes(sandbox)).toEqual([])
  await untilAsleep(sandbox)
})

test('jobs that runs leave behind keep it awake; helpers, stopped jobs and idle terminals do not', async () => {
  const sandbox = await create()
  await bash(sandbox, 'nohup sleep 100001 > /dev/null 2>&1 & sleep 100002 & kill -STOP $!')
  await runIn(core, sandbox, 'import subprocess; child = subprocess.Popen(["sleep", "100003"])')
  await runIn(
    core,
    sandbox,
    'from multiprocessing import resource_tracker; resource_tracker.ensure_running()',
  )
  const { processId } = await start(sandbox, {
    args: ['bash', '-i'],
    stdin: true,
    pty: { cols: 80, rows: 24 },
  })
  const named = await processes(sandbox)
  expect(named.map((what) => what.replace(/^process \d+/, '')).sort()).toEqual([
    ' (sleep 100001)',
    ' (sleep 100003)',
  ])
  await sandbox.use({ cause: 'process', what: 'a test' }, (guest) =>
    guest.processes.writeStdin(processId, 'sleep 100004\n', { close: false }),
  )
  await bash(sandbox, "until pgrep -fx 'sleep 100004'; do sleep 0.1; done")
  await runIn(core, sandbox, 'child.kill(); child.wait()')
  // A listed process has ended, so the agent has looked again.
  await expect
    .poll(async () => (await processes(sandbox)).map((what) => what.replace(/^process \d+/, '')).sort())
    .toEqual([' (sleep 100001)', ' (sleep 100004)'])
  await hoursPass(2)
  expect(sandbox.row.state).toBe('running')
})

test('the policy bounds how long background work keeps it awake, and 0 ignores it', async () => {
  const bounded = await create({ maxBackgroundMs: 5 * HOUR_MS })
  const never = await create({ maxBackgroundMs: 0 })
  for (const sandbox of [bounded, never]) await start(sandbox, { command: 'sleep 100000' })
  expect(await processes(never)).toEqual([])
  await hoursPass(3)
  await expect.poll(() => never.row.state).toBe('standby')
  expect(bounded.row.state).toBe('running')
  await hoursPass(3)
  await expect.poll(() => bounded.row.state).toBe('standby')
  // A wake is a use: the time begins again.
  await bounded.resume('resume')
  expect(await processes(bounded)).toHaveLength(1)
})

test('a sandbox that expires when idle stays while it has background work', async () => {
  const sandbox = await create({ idleTimeoutMs: 0, expires: { idleMs: HOUR_MS, action: 'delete' } })
  const { processId } = await start(sandbox, { command: 'sleep 100000' })
  await hoursPass(2)
  expect(sandbox.row.state).toBe('running')
  await kill(sandbox, processId)
  await hoursPass(2)
  await expect.poll(() => core.sandboxes.find(sandbox.id), { timeout: 15_000 }).toBeUndefined()
})

test('a standby that is asked for always works, and the set is rebuilt after a wake and a restart', async () => {
  const sandbox = await create()
  const { pid } = await start(sandbox, { command: 'sleep 100000' })
  const named = [`process ${pid} (sleep 100000)`]
  expect(await processes(sandbox)).toEqual(named)
  for (const tier of ['frozen', 'stored'] as const) {
    await sandbox.standby({ tier, cause: 'asked' })
    expect(await processes(sandbox)).toEqual([])
    await sandbox.resume('resume')
    expect(await processes(sandbox)).toEqual(named)
  }
  core = await core.restart()
  const adopted = core.sandboxes.find(sandbox.id)
  if (adopted === undefined) throw new Error('the sandbox is gone')
  expect(adopted.row.state).toBe('running')
  await hoursPass(3)
  expect(adopted.row.state).toBe('running')
  expect(await processes(adopted)).toEqual(named)
})
