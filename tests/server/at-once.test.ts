import { setTimeout as sleep } from 'node:timers/promises'
import type { Caller, Sandbox } from '@dormouse/server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const MIB = 1024 ** 2

let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open({ restoresAtOnce: 1 })
})

afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

function tenant(name: string): Caller {
  return { keyId: core.access.create({ name, scopes: ['run'] }).view.id, isAdmin: false }
}

async function create(caller: Caller): Promise<Sandbox> {
  const limits = { memoryBytes: 256 * MIB, cpus: 1, pids: 512, diskBytes: 1024 * MIB }
  return (await core.sandboxes.create(wanted({ limits }), caller)).sandbox
}

const run = (sandbox: Sandbox, code: string) => runIn(core, sandbox, code)

/** How many went well; what did not was refused by this quota. */
function countWell(outcomes: readonly PromiseSettledResult<unknown>[], quota: string): number {
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected')
      expect(outcome.reason).toMatchObject({ code: 'limit_reached', details: { quota } })
  }
  return outcomes.filter(({ status }) => status === 'fulfilled').length
}

describe('quotas, when many ask at once', () => {
  test.each([
    ['running', 'stored', { running: 2 }],
    ['running', 'frozen', { running: 2 }],
    ['memoryBytes', 'stored', { memoryBytes: 2 * 256 * MIB }],
  ] as const)('%s: of wakes from %s only so many go through', async (quota, tier, quotas) => {
    const caller = tenant(`${quota}-${tier}`)
    const sandboxes = [await create(caller), await create(caller), await create(caller), await create(caller)]
    for (const sandbox of sandboxes) await sandbox.standby({ tier, cause: 'asked' })
    core.access.update(caller.keyId, { quotas })
    const outcomes = await Promise.allSettled(sandboxes.map((sandbox) => sandbox.resume('resume')))
    expect(countWell(outcomes, quota)).toBe(2)
    expect(sandboxes.filter((sandbox) => sandbox.view().state === 'running')).toHaveLength(2)
    for (const sandbox of sandboxes) await sandbox.delete()
  })

  test('sandboxes: of forks of several parents only so many go through', async () => {
    const caller = tenant('forks')
    const parents = [await create(caller), await create(caller)]
    core.access.update(caller.keyId, { quotas: { sandboxes: 4 } })
    const forks = parents.map((parent) => parent.fork({ count: 2, reseed: true }))
    expect(countWell(await Promise.allSettled(forks), 'sandboxes')).toBe(1)
    const { items } = core.sandboxes.list({ limit: 100 }, caller)
    expect(items).toHaveLength(4)
    for (const { id } of items) await core.sandboxes.get(id, caller).delete()
  })
})

describe('restores, of which there may be one at a time', () => {
  test('of a fork and of a standby in memory wait for their turn, and continue before those of wakes', async () => {
    const caller = tenant('restores')
    const { starts } = core.sandboxes.deps
    const [parent, frozen, asleep] = [await create(caller), await create(caller), await create(caller)]
    for (const sandbox of [parent, frozen]) await run(sandbox, 'x = 7')
    await asleep.standby({ tier: 'stored', cause: 'asked' })
    let leave = () => {}
    const other = starts.run('another', () => new Promise<void>((resolve) => (leave = resolve)))
    const order: string[] = []
    const noted = <Value>(name: string, work: Promise<Value>) => work.finally(() => order.push(name))
    const waking = noted('wake', asleep.resume('resume'))
    const freezing = noted('standby', frozen.standby({ tier: 'frozen', cause: 'asked' }))
    await expect.poll(() => starts.load.waiting, { timeout: 30_000 }).toBe(2)
    const forking = noted('fork', parent.fork({ count: 2, reseed: true }))
    await expect.poll(() => starts.load.waiting, { timeout: 30_000 }).toBeGreaterThanOrEqual(4)
    await sleep(200)
    expect(order).toEqual([])
    leave()
    const [children, view] = await Promise.all([forking, freezing, waking, other])
    expect(order[0]).toBe('standby')
    expect(view.tier).toBe('frozen')
    for (const { id } of [parent, frozen, ...children])
      expect(await run(core.sandboxes.get(id, caller), 'print(x)')).toBe('7\n')
    expect(starts.load).toEqual({ running: 0, waiting: 0 })
    for (const { id } of [parent, frozen, asleep, ...children]) await core.sandboxes.get(id, caller).delete()
  })
})
