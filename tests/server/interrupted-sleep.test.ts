import { setTimeout as sleep } from 'node:timers/promises'
import type { Sandbox } from '@dormouse/server'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

let host: TestHost
let core: TestCore
let sandbox: Sandbox

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
  const created = await core.sandboxes.create(wanted({ idleTimeoutMs: 0 }), core.caller)
  sandbox = created.sandbox
  await run('import os, zlib; data = os.urandom(80_000_000); checksum = zlib.crc32(data); n = 0')
})
afterEach(() => {
  vi.restoreAllMocks()
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const run = (code: string) => runIn(core, sandbox, code)
const events = () => sandbox.ledger({ limit: 100 }).items.map(({ event }) => event)
const count = (what: string) => events().filter((event) => event === what).length

test('a call at any moment of falling asleep is answered with the sandbox as it was', async () => {
  let kept = 0
  let calls = 0
  for (const afterMs of [0, 5, 20, 50, 100, 200, 300, 450, 700]) {
    const burrow = sandbox.burrow
    const falling = sandbox.standby({ tier: 'frozen', cause: 'idle' })
    await sleep(afterMs)
    calls += 1
    expect(await run('n += 1; print(n, zlib.crc32(data) == checksum)')).toBe(`${calls} True\n`)
    await falling
    if (sandbox.burrow === burrow && sandbox.row.state === 'running') kept += 1
  }
  // The early ones came in time.
  expect(kept).toBeGreaterThan(1)
  expect(events()).not.toContain('refused')
  expect(count('slept')).toBeLessThan(calls)
})

test('a sleep that no call interrupts reaches its tier, and one that was asked for does so after the call', async () => {
  // The last run counts as work for a moment after its result.
  await expect.poll(() => sandbox.work.isBusy).toBe(false)
  await sandbox.standby({ tier: 'frozen', cause: 'idle' })
  expect(sandbox.row).toMatchObject({ state: 'standby', tier: 'frozen' })
  expect(await run('print(zlib.crc32(data) == checksum)')).toBe('True\n')
  await run('more = os.urandom(60_000_000); more_sum = zlib.crc32(more)')
  const asked = sandbox.standby({ tier: 'stored', cause: 'asked' })
  const answer = run('print(zlib.crc32(more) == more_sum)')
  expect(await answer).toBe('True\n')
  await asked
  expect(count('slept')).toBeGreaterThan(1)
  expect(await run('print(zlib.crc32(data) == checksum, zlib.crc32(more) == more_sum)')).toBe('True True\n')
})

/** Calls `call` each time when the engine begins to save the sandbox, which is stopped and locked then. */
function atEachSave(call: () => void) {
  const { engine } = core.sandboxes.deps
  const real = engine.snapshot.bind(engine)
  return vi.spyOn(engine, 'snapshot').mockImplementation((burrow, options) => {
    call()
    return real(burrow, options)
  })
}

test('a call that comes while a standby that was asked for saves is answered before it; then the sandbox sleeps', async () => {
  await run('more = os.urandom(60_000_000); more_sum = zlib.crc32(more)')
  const before = count('slept')
  const order: string[] = []
  let answer: Promise<string> | undefined
  const saves = atEachSave(() => {
    if (saves.mock.calls.length === 1)
      answer = run('print(zlib.crc32(more) == more_sum)').finally(() => order.push('call'))
  })
  const view = await sandbox.standby({ tier: 'frozen', cause: 'asked' }).finally(() => order.push('standby'))
  expect(await answer).toBe('True\n')
  expect(order).toEqual(['call', 'standby'])
  expect(view).toMatchObject({ state: 'standby', tier: 'frozen' })
  expect(saves).toHaveBeenCalledTimes(2)
  expect(count('slept')).toBe(before + 1)
  expect(await run('print(zlib.crc32(data) == checksum)')).toBe('True\n')
})

test('a call that comes while an idle sandbox is being saved keeps it awake', async () => {
  await expect.poll(() => sandbox.work.isBusy).toBe(false)
  const { burrow } = sandbox
  const before = count('slept')
  let answer: Promise<string> | undefined
  atEachSave(() => {
    answer = run('print("called")')
  })
  const view = await sandbox.standby({ tier: 'frozen', cause: 'idle' })
  expect(view.state).toBe('running')
  expect(await answer).toBe('called\n')
  expect(sandbox.burrow).toBe(burrow)
  expect(count('slept')).toBe(before)
})

test('a client that calls all the time does not keep a sandbox awake that is asked to sleep', async () => {
  const before = count('slept')
  const calls: Promise<string>[] = []
  const saves = atEachSave(() => void calls.push(run('print("called")')))
  const view = await sandbox.standby({ tier: 'frozen', cause: 'asked' })
  expect(view).toMatchObject({ state: 'standby', tier: 'frozen' })
  expect(saves).toHaveBeenCalledTimes(4)
  expect(await Promise.all(calls)).toEqual(calls.map(() => 'called\n'))
  expect(count('slept')).toBe(before + 1)
})

test('a long run that interrupts a standby that was asked for wakes the sandbox again and continues', async () => {
  const before = count('slept')
  let result: Promise<string> | undefined
  atEachSave(() => {
    result ??= run('import time\nwhile not os.path.exists("/root/go"): time.sleep(0.05)\nprint("went")')
  })
  expect(await sandbox.standby({ tier: 'stored', cause: 'asked' })).toMatchObject({ tier: 'stored' })
  expect(count('slept')).toBe(before + 1)
  await expect.poll(() => sandbox.row.state).toBe('running')
  await sandbox.use({ cause: 'file', what: 'a test' }, (guest) =>
    guest.files.write('/root/go', Buffer.alloc(0)),
  )
  expect(await result).toBe('went\n')
})

test('a server that is killed while it prepares a sleep leaves the sandbox running, with the memory it has moved', async () => {
  await run('fresh = os.urandom(80_000_000); fresh_sum = zlib.crc32(fresh)')
  const falling = sandbox.standby({ tier: 'stored', cause: 'idle' }).catch(() => {})
  await sleep(60)
  const id = sandbox.id
  core = await core.restart()
  await falling
  sandbox = core.sandboxes.get(id, core.caller)
  expect(await run('print(zlib.crc32(fresh) == fresh_sum, zlib.crc32(data) == checksum)')).toBe('True True\n')
  await sandbox.standby({ tier: 'stored', cause: 'asked' })
  expect(await run('print(zlib.crc32(fresh) == fresh_sum, zlib.crc32(data) == checksum)')).toBe('True True\n')
})
