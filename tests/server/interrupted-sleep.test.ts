import { setTimeout as sleep } from 'node:timers/promises'
import type { Sandbox } from '@dormouse/server'
import { afterAll, beforeAll, expect, test } from 'vitest'
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
