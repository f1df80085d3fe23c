import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

test('the example of the engine alone does what it says, and leaves nothing', async () => {
  const program = fileURLToPath(new URL('../../examples/first-sleep/first-sleep.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [program, testDataDir, factory.stateDir])
  expect(stdout).toMatch(/^awake after \d+ ms\n499999500000 True\n/)
  expect(await factory.traces()).toEqual([])
})
