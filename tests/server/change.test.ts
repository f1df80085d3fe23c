import { DormouseError } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Sandbox } from '../../packages/server/src/sandbox/sandbox.ts'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const MIB = 1024 ** 2

let host: TestHost
let core: TestCore
let sandbox: Sandbox
beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})
beforeEach(async () => {
  core.services.secrets.create({ name: 'KEY', value: 'x'.repeat(20), domains: ['a.example'] }, core.caller)
  const created = await core.sandboxes.create(wanted({ name: 'mine', metadata: { a: '1' } }), core.caller)
  sandbox = created.sandbox
  return async () => {
    vi.restoreAllMocks()
    for (const one of [...core.sandboxes.all()]) await one.delete()
    await core.services.secrets.delete('KEY', { force: true }, core.caller)
  }
})

const everything = () => ({
  ...{ name: 'other', metadata: { b: '2' }, idleTimeoutMs: 7_000, storeAfterMs: 8_000, ephemeral: true },
  expires: { at: new Date(Date.now() + 3_600_000).toISOString(), action: 'delete' } as const,
  ...{ network: { mode: 'none', allow: [] } as const, secrets: ['KEY'] },
  limits: { memoryBytes: 300 * MIB, cpus: 0.5, pids: 100, diskBytes: 512 * MIB },
})
/** What a change is about. */
const asItIs = () => {
  const { stateSince: _, lastActiveAt: __, ...view } = sandbox.view()
  return view
}
const events = () => sandbox.ledger({ limit: 100 }).items.map(({ event }) => event)
const burrowOf = ({ burrow }: Sandbox) => burrow as Burrow
/** What the edge and the gate go by. */
const policies = () => vi.spyOn(sandbox.deps.network, 'change')

describe('a change that fails while it is applied', () => {
  test('changes nothing', async () => {
    const before = asItIs()
    const limits = burrowOf(sandbox).limits
    vi.spyOn(burrowOf(sandbox), 'setLimits').mockRejectedValueOnce(new DormouseError('conflict', 'in use'))
    const applied = policies()
    await expect(sandbox.update(everything())).rejects.toThrow('in use')
    expect(asItIs()).toEqual(before)
    expect(burrowOf(sandbox).limits).toEqual(limits)
    expect(applied).toHaveBeenCalledTimes(2)
    expect(events()).toEqual(['created'])
    core = await core.restart()
    sandbox = core.sandboxes.get(sandbox.id, core.caller)
    expect(asItIs()).toEqual(before)
  })

  test('takes back what was applied already, when another has taken its name meanwhile', async () => {
    const before = asItIs()
    const burrow = burrowOf(sandbox)
    const { limits } = burrow
    const setLimits = burrow.setLimits.bind(burrow)
    const { deps } = sandbox
    vi.spyOn(burrow, 'setLimits').mockImplementationOnce(async (next) => {
      await setLimits(next)
      await core.sandboxes.create(wanted({ name: 'other' }), core.caller)
    })
    await expect(sandbox.update(everything())).rejects.toThrow('There is already a sandbox named "other".')
    expect(asItIs()).toEqual(before)
    expect(burrow.limits).toEqual(limits)
    expect(deps.intents.all()).toEqual([])
    await core.sandboxes.get('other', core.caller).delete()
    expect((await sandbox.update({ name: 'other' })).name).toBe('other')
  })

  test('takes back all that it can, and leaves the rest to the next start', async () => {
    const before = asItIs()
    const burrow = burrowOf(sandbox)
    const setLimits = burrow.setLimits.bind(burrow)
    vi.spyOn(burrow, 'setLimits')
      .mockImplementationOnce(async (next) => {
        await setLimits(next)
        await core.sandboxes.create(wanted({ name: 'other' }), core.caller)
      })
      .mockRejectedValueOnce(new Error('not now'))
    const applied = policies()
    await expect(sandbox.update(everything())).rejects.toThrow('There is already a sandbox named "other".')
    expect(asItIs()).toEqual(before)
    expect(applied).toHaveBeenCalledTimes(2)
    expect(burrow.limits.memoryBytes).toBe(300 * MIB)
    core = await core.restart()
    sandbox = core.sandboxes.get(sandbox.id, core.caller)
    expect(burrowOf(sandbox).limits.memoryBytes).toBe(before.limits.memoryBytes)
    expect(sandbox.deps.intents.all()).toEqual([])
  })

  test('keeps its name to itself until it is known whether it keeps it', async () => {
    vi.spyOn(burrowOf(sandbox), 'setLimits').mockImplementationOnce(async () => {
      const thief = core.sandboxes.create(wanted({ name: 'mine' }), core.caller)
      await expect(thief).rejects.toThrow('There is already a sandbox named "mine".')
      throw new DormouseError('conflict', 'in use')
    })
    await expect(sandbox.update(everything())).rejects.toThrow('in use')
    expect(sandbox.view().name).toBe('mine')
  })

  test('keeps the secrets that it may go back to, and those that it may get, from being deleted', async () => {
    const { secrets } = core.services
    secrets.create({ name: 'NEXT', value: 'y'.repeat(20), domains: ['b.example'] }, core.caller)
    await sandbox.update({ secrets: ['KEY'] })
    vi.spyOn(burrowOf(sandbox), 'setLimits').mockImplementationOnce(async () => {
      for (const name of ['KEY', 'NEXT'])
        await expect(secrets.delete(name, { force: false }, core.caller)).rejects.toThrow('is used by')
      throw new DormouseError('conflict', 'in use')
    })
    await expect(sandbox.update({ ...everything(), secrets: ['NEXT'] })).rejects.toThrow('in use')
    expect(sandbox.view().secrets).toEqual(['KEY'])
    await secrets.delete('NEXT', { force: false }, core.caller)
  })
})

describe('a server that dies while a change is applied', () => {
  test.each(['running', 'frozen'])('leaves a sandbox that is %s as it was', async (state) => {
    if (state === 'frozen') await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    const before = asItIs()
    const burrow = burrowOf(sandbox)
    const { limits } = burrow
    const setLimits = burrow.setLimits.bind(burrow)
    let died = () => {}
    const dead = new Promise<void>((resolve) => {
      died = resolve
    })
    vi.spyOn(burrow, 'setLimits').mockImplementation(async (next) => {
      await setLimits(next)
      died()
      return new Promise<void>(() => {})
    })
    void sandbox.update(everything())
    await dead
    expect(burrow.limits.memoryBytes).toBe(300 * MIB)
    core = await core.restart()
    sandbox = core.sandboxes.get(sandbox.id, core.caller)
    expect(asItIs()).toEqual(before)
    expect(burrowOf(sandbox).limits).toEqual(limits)
    expect(sandbox.deps.intents.all()).toEqual([])
    expect(events()).not.toContain('changed')
  })
})
