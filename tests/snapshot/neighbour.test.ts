import { newSandboxId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const factory = await linuxFactory()
let engine: Engine
beforeAll(async () => {
  engine = await factory.open()
})
afterAll(async () => {
  await engine[Symbol.asyncDispose]()
  await factory.cleanUp()
})

test('a neighbour that uses up the pages for pipes does not keep a sandbox from waking', async () => {
  const create = () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const sandbox = await create()
  await sandbox.guest.runs.run({ code: 'import os; ends = os.pipe(); os.write(ends[1], b"kept")' })
  const neighbour = await create()
  // F_GETPIPE_SZ of the last one shows that the kernel has begun to save on pipes.
  const hog =
    'import os, fcntl\npipes = [os.pipe() for _ in range(2000)]\nprint(fcntl.fcntl(pipes[-1][0], 1032))'
  expect(Number((await neighbour.guest.runs.run({ code: hog })).stdout)).toBeLessThan(65_536)

  const { burrow } = await engine.snapshot(sandbox, { leave: 'running' })
  expect((await burrow!.guest.runs.run({ code: 'print(os.read(ends[0], 9))' })).stdout).toBe("b'kept'\n")
  await Promise.all([burrow!.destroy(), neighbour.destroy()])
})
