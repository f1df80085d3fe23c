import { readdir, readFile } from 'node:fs/promises'
import type { BurrowId, SnapshotId } from '@dormouse/contracts'
import type { Sandbox } from '@dormouse/server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from '../server/test-core.ts'
import { takeOverAgent } from './fake-agent.ts'

let host: TestHost
let core: TestCore
let victim: Sandbox
let victimsHead: SnapshotId

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})

beforeEach(async () => {
  victim = await create()
  await runIn(core, victim, 'x = "the victim remembers this"')
  const { headSnapshotId } = await victim.standby({ tier: 'stored', cause: 'asked' })
  victimsHead = headSnapshotId as SnapshotId
})

afterEach(async () => {
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
})

afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

async function create(): Promise<Sandbox> {
  return (await core.sandboxes.create(wanted(), core.caller)).sandbox
}

/** The lie that would make the host take another sandbox's snapshot for the attacker's own. */
const lie = () => ({
  code: 'restore_failed',
  message: 'The sandbox was saved, but could not continue.',
  details: { snapshotId: victimsHead },
})

describe("an agent that answers with another sandbox's snapshot", () => {
  test.each(['stored', 'frozen'] as const)('standby %s: the sandbox keeps its own head', async (tier) => {
    const attacker = await create()
    await takeOverAgent(core, attacker, { 'agent.quiesce': lie() })
    const { headSnapshotId } = attacker.view()
    await expect(attacker.standby({ tier, cause: 'asked' })).rejects.toMatchObject({ code: 'internal' })
    expect(attacker.view()).toMatchObject({ state: 'running', headSnapshotId })
  })

  test('snapshot: the sandbox keeps its own head', async () => {
    const attacker = await create()
    await takeOverAgent(core, attacker, { 'agent.quiesce': lie() })
    const { headSnapshotId } = attacker.view()
    await expect(attacker.snapshot({ name: undefined, kind: 'full' })).rejects.toMatchObject({
      code: 'internal',
    })
    expect(attacker.view()).toMatchObject({ state: 'running', headSnapshotId })
  })

  test('fork: the parent keeps its own head, and there is no child', async () => {
    const attacker = await create()
    await takeOverAgent(core, attacker, { 'agent.quiesce': lie() })
    const { headSnapshotId } = attacker.view()
    await expect(attacker.fork({ count: 2, reseed: true })).rejects.toMatchObject({ code: 'internal' })
    expect(attacker.view()).toMatchObject({ state: 'running', headSnapshotId })
    expect([...core.sandboxes.all()].map(({ id }) => id)).toEqual([victim.id, attacker.id])
  })

  test('a deleted sandbox leaves no process behind', async () => {
    const attacker = await create()
    await takeOverAgent(core, attacker, { 'agent.quiesce': lie() })
    await attacker.standby({ tier: 'stored', cause: 'asked' }).catch(() => {})
    await attacker.delete()
    for (const name of await readdir(host.factory.layout.burrowsDir))
      expect(await recordOf(name)).not.toMatchObject({ sandboxId: attacker.id })
    expect(await runIn(core, victim, 'print(x)')).toBe('the victim remembers this\n')
  })
})

describe('an agent that does not answer', () => {
  test('while it is introduced: the rollback fails in time, and the sandbox is as before', async () => {
    const attacker = await create()
    const before = attacker.view()
    const rolledBack = takeOverAgent(core, attacker, { 'agent.configure': 'silence' })
    await expect(rolledBack).rejects.toMatchObject({ code: 'agent_unreachable' })
    expect(attacker.view()).toMatchObject({ state: 'running', headSnapshotId: before.headSnapshotId })
    expect(await runIn(core, attacker, 'print("here")')).toBe('here\n')
  })

  test('while a server starts: the server becomes ready, and other sandboxes wake', async () => {
    const attacker = await create()
    await takeOverAgent(core, attacker, { 'agent.info': 'silence' })
    core = await core.restart()
    const found = core.sandboxes.get(victim.id, core.caller)
    expect(await runIn(core, found, 'print(x)')).toBe('the victim remembers this\n')
    expect(core.sandboxes.get(attacker.id, core.caller).view()).toMatchObject({ state: 'running' })
  })
})

async function recordOf(burrow: string): Promise<unknown> {
  const { record } = host.factory.layout.burrow(burrow as BurrowId)
  return JSON.parse(await readFile(record, 'utf8').catch(() => '{}'))
}
