// Uses the engine without a server: a burrow, a variable, a sleep, and two forks. Run it as root after `./dormouse up`.
import assert from 'node:assert/strict'
import { newSandboxId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'

const engine = await LinuxEngine.open({
  dataDir: process.argv[2] ?? '/var/lib/dormouse',
  stateDir: process.argv[3],
})
const print = async (burrow, code) => (await burrow.guest.runs.run({ code })).stdout.trim()

const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
await print(burrow, 'import pandas as pd; df = pd.DataFrame({"x": range(1_000_000)}); address = id(df)')

const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' }) // asleep: no process, only bytes on disk
const start = performance.now()
const awake = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
console.log(`awake after ${Math.round(performance.now() - start)} ms`)
const sum = await print(awake, 'print(df.x.sum(), id(df) == address)')
console.log(sum)
assert.equal(sum, '499999500000 True')

const { parent, children } = await engine.fork(awake, { sandboxIds: [newSandboxId(), newSandboxId()] })
const sums = await Promise.all(children.map((child, i) => print(child, `df["x"] += ${i}; print(df.x.sum())`)))
console.log(sums)
assert.deepEqual(sums, ['499999500000', '500000500000'])

for (const each of [parent, ...children]) await each.destroy()
for (const { id } of await engine.listSnapshots()) await engine.deleteSnapshot(id)
await engine[Symbol.asyncDispose]()
