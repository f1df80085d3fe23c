import { readdir } from 'node:fs/promises'
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
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

test('a sandbox that has written no file since it woke sleeps without a new layer', async () => {
  const sandboxId = newSandboxId()
  const first = await engine.createBurrow({ sandboxId, template: 'python' })
  await first.guest.runs.run({ code: 'x = 1' })
  const { snapshot } = await engine.snapshot(first, { leave: 'gone' })
  const layers = await readdir(factory.layout.layersDir)

  const second = await engine.restore(snapshot.id, { sandboxId })
  expect((await second.guest.runs.run({ code: 'print(x)' })).stdout).toBe('1\n')
  const log = await second.guest.runs.run({ language: 'bash', code: 'cat /var/log/dormouse-agent.log' })
  expect(log.stdout).toContain('listening on')
  await engine.snapshot(second, { leave: 'gone' })
  expect(await readdir(factory.layout.layersDir)).toEqual(layers)
})
