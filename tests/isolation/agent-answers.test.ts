import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isolatedFactory } from './isolated-factory.ts'

const factory = await isolatedFactory()
let engine: Engine
let burrow: Burrow
beforeAll(async () => {
  engine = await factory.open()
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', user: 'root' })
})
afterAll(async () => {
  await burrow?.destroy()
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

test('a list shows the beginning of a long command', async () => {
  const { guest } = burrow
  const processId = await guest.processes.start({ args: ['/bin/true', 'x'.repeat(100_000)] })
  const listed = (await guest.processes.list()).find((process) => process.processId === processId)
  expect(listed?.command).toMatch(/^\/bin\/true x+…$/)
  expect(listed?.command).toHaveLength(4097)
})

test('an answer that is too long for its frame is refused by an honest agent, and the connection lasts', async () => {
  const { guest } = burrow
  const follow = guest.processes
    .stream({ shell: 'read line; echo $line', stdin: true })
    [Symbol.asyncIterator]()
  const { value: start } = await follow.next()
  // Escaped, each of these characters takes six bytes.
  const args = ['/bin/true', '\u0001'.repeat(100_000)]
  for (let batch = 0; batch < 10; batch++)
    await Promise.all(Array.from({ length: 24 }, () => guest.processes.start({ args })))
  await expect(guest.processes.list()).rejects.toMatchObject({ code: 'too_large' })
  await guest.processes.writeStdin((start as { processId: string }).processId, 'still here\n')
  expect((await follow.next()).value).toMatchObject({ type: 'stdout', data: 'still here\n' })
})

test('a result that is nested deeper than the host reads is shown as text', async () => {
  const code = `
from IPython.display import display
value = []
for _ in range(3000): value = [value]
display({"application/json": value, "text/plain": "deep"}, raw=True)
print("on")`
  const run = await burrow.guest.runs.run({ code })
  expect(run).toMatchObject({ exitCode: 0, stdout: 'on\n', results: [{ 'text/plain': 'deep' }] })
  expect(typeof run.results[0]?.['application/json']).toBe('string')
})
