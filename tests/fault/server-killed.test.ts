import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
// What a test leaves that fails must not be in the way of others.
afterEach(() => factory.dispose())
afterAll(() => factory.cleanUp())

const program = fileURLToPath(new URL('create-burrows.mjs', import.meta.url))

/** Lets it create burrows for a while, then kills it; returns the burrows it had acknowledged. */
async function killAfter(delayMs: number): Promise<string[]> {
  const child = spawn(process.execPath, [program, testDataDir, factory.stateDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const acknowledged: string[] = []
  const lines = createInterface({ input: child.stdout })
  const reading = (async () => {
    for await (const line of lines) acknowledged.push(line)
  })()
  while (acknowledged.length === 0 && child.exitCode === null) await sleep(5)
  await sleep(delayMs)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await reading
  return acknowledged.slice(1)
}

describe('server killed with SIGKILL', () => {
  // The moments differ on purpose: before, in the middle of and after the first create.
  test.each([0, 3, 7, 15, 40, 90, 700])(
    '%i ms into creating burrows, the next engine has them all and nothing else',
    async (delayMs) => {
      const acknowledged = await killAfter(delayMs)
      // A dormouse-init that was under way continues by itself.
      await sleep(300)
      const engine = await factory.open()
      const { burrows } = await engine.adoptBurrows()
      const ids: string[] = burrows.map(({ id }) => id)
      expect(ids).toEqual(expect.arrayContaining(acknowledged))
      // One more may have come up between its start and its acknowledgement.
      expect(ids.length).toBeLessThanOrEqual(acknowledged.length + 1)
      for (const burrow of burrows) {
        expect((await burrow.guest.runs.run({ code: 'print("here")' })).stdout).toBe('here\n')
        await burrow.destroy()
      }
      expect(await factory.traces()).toEqual([])
      await engine[Symbol.asyncDispose]()
    },
  )
})
