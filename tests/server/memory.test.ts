import { setTimeout as sleep } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { AgentClient } from '@dormouse/guest'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { AgentConnection } from '../../packages/guest/src/connection.ts'
import { LiveRun } from '../../packages/server/src/runs/live-run.ts'
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

const ROUNDS = 6
/** The engine fills its reserve of two burrows in the background, before or after the first count. */
const RESERVE = 2
/** Background work after a sleep is over by then. */
const PATIENCE_MS = 20_000

/** How many of each the server holds on to; the query collects garbage first. */
const held = () => ({
  burrows: queryObjects(LinuxBurrow),
  clients: queryObjects(AgentClient),
  connections: queryObjects(AgentConnection),
  runs: queryObjects(LiveRun),
})

type Held = ReturnType<typeof held>

const keys = ['burrows', 'clients', 'connections', 'runs'] as const

/** Looks until there is no more than this of any, or the patience is over. */
async function heldInTheEnd(most: Held): Promise<Held> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const now = held()
    if (keys.every((name) => now[name] <= most[name]) || performance.now() > deadline) return now
    await sleep(200)
  }
}

describe('the memory of the server', () => {
  test.each(['stored', 'frozen'] as const)(
    'is as before when a sandbox has woken and slept again, %s',
    async (tier) => {
      const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
      const cycle = async () => {
        await runIn(core, sandbox, 'print(1)')
        await sandbox.standby({ tier, cause: 'asked' })
      }
      await cycle()
      // The engine remembers the last burrows that were created, whatever has become of them.
      const few = { burrows: 3, clients: 3, connections: 3, runs: 0 }
      const before = await heldInTheEnd(few)
      for (let round = 0; round < ROUNDS; round += 1) await cycle()
      // A leak holds one more with every round.
      const most = Object.fromEntries(keys.map((name) => [name, before[name] + RESERVE])) as Held
      const after = await heldInTheEnd(most)
      for (const name of keys) expect(after[name], name).toBeLessThanOrEqual(most[name])
      await sandbox.delete()
    },
  )
})
