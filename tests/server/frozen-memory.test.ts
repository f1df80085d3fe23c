import type { Sandbox } from '@dormouse/server'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

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

const freeze = (sandbox: Sandbox) => sandbox.standby({ tier: 'frozen', cause: 'asked' })
const causes = (sandbox: Sandbox) =>
  sandbox.ledger({ limit: 100 }).items.map(({ event, cause }) => [event, cause])

/** Used, and frozen at once: what it still has to do would count as use. */
async function used(name: string): Promise<Sandbox> {
  const { sandbox } = await core.sandboxes.create(wanted({ name }), core.caller)
  await runIn(core, sandbox, 'x = 7')
  await freeze(sandbox)
  return sandbox
}

/** Memory that only a frozen sandbox has. */
async function frozenBytes(): Promise<number> {
  const sandbox = await used('probe')
  const memory = await sandbox.burrow?.memory()
  await sandbox.delete()
  return memory?.privateBytes ?? 0
}

test('beyond the budget the least recently used are stored, and the others stay frozen', async () => {
  const bytes = await frozenBytes()
  expect(bytes).toBeGreaterThan(0)
  await core[Symbol.asyncDispose]()
  core = await host.open({ frozenMemoryBytes: Math.floor(2.5 * bytes) })
  const oldest = await used('oldest')
  const older = await used('older')
  const newer = await used('newer')
  const newest = await used('newest')
  const tiers = () => [oldest, older, newer, newest].map(({ row }) => row.tier)
  await expect.poll(tiers, { timeout: 30_000 }).toEqual(['stored', 'stored', 'frozen', 'frozen'])
  for (const sandbox of [oldest, older]) expect(causes(sandbox)).toContainEqual(['stored', 'memory'])
  // One that is used again takes the place of the one that is the least recently used now.
  expect(await runIn(core, oldest, 'print(x)')).toBe('7\n')
  await freeze(oldest)
  await expect.poll(tiers, { timeout: 30_000 }).toEqual(['frozen', 'stored', 'stored', 'frozen'])
  for (const sandbox of [older, newer, newest]) expect(await runIn(core, sandbox, 'print(x)')).toBe('7\n')
})
