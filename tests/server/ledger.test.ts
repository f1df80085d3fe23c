import type { Sandbox } from '@dormouse/server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})

afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const create = async () => (await core.sandboxes.create(wanted(), core.caller)).sandbox
const entries = (sandbox: Sandbox, ...events: string[]) =>
  sandbox.ledger({ limit: 100 }).items.filter(({ event }) => events.includes(event))

describe('the ledger', () => {
  test('says of every sleep and wake why, how long it took, and how much there was to move', async () => {
    const sandbox = await create()
    for (const tier of ['frozen', 'stored', 'frozen'] as const) {
      await sandbox.standby({ tier, cause: 'asked' })
      await sandbox.resume('resume')
    }
    const known = { latencyMs: expect.any(Number), bytes: expect.any(Number) }
    const slept = (tier: string) =>
      expect.objectContaining({ event: 'slept', cause: 'asked', tier, ...known })
    const woke = (tier: string) => expect.objectContaining({ event: 'woke', cause: 'resume', tier, ...known })
    const all = entries(sandbox, 'slept', 'woke')
    const tiers = ['frozen', 'stored', 'frozen']
    expect(all).toEqual(tiers.flatMap((tier) => [slept(tier), woke(tier)]))
    for (const { latencyMs } of all) expect(latencyMs).toBeGreaterThan(0)
    // What was frozen is in memory already; what was stored comes from what the sleep before has written.
    expect(entries(sandbox, 'woke').map(({ bytes }) => bytes)).toEqual([0, all[2]?.bytes, 0])
    await sandbox.delete()
  })

  test('a wake whose latency was never recorded is still listed', async () => {
    const sandbox = await create()
    await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    await sandbox.resume('resume')
    // Slept and woke again before the ledger was read: each keeps its own.
    await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    await sandbox.resume('resume')
    core = await core.restart()
    const again = core.sandboxes.get(sandbox.id, core.caller)
    const wakes = entries(again, 'woke')
    expect(wakes).toHaveLength(2)
    for (const { latencyMs } of wakes) expect(latencyMs).toBeGreaterThan(0)
    expect(await core.services.metrics.text()).toBeTypeOf('string')
    await again.delete()
  })

  test('metrics have the latency of wakes from both tiers', async () => {
    const sandbox = await create()
    for (const tier of ['frozen', 'stored'] as const) {
      await sandbox.standby({ tier, cause: 'asked' })
      await sandbox.resume('resume')
    }
    const text = await core.services.metrics.text()
    for (const tier of ['frozen', 'stored'])
      expect(text).toMatch(
        new RegExp(`dormouse_transition_seconds_count\\{event="woke",tier="${tier}"\\} [1-9]`),
      )
    await sandbox.delete()
  })
})
