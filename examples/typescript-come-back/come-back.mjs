// An agent loads data once, lets the sandbox sleep, and comes back to data that is still in memory.
// Start a server, then run: node examples/typescript-come-back/come-back.mjs
import assert from 'node:assert/strict'
import { Sandbox } from 'dormouse'

const sandbox = await Sandbox.create({ metadata: { agent: 'analyst' } })
await sandbox.runCode('import pandas as pd; df = pd.DataFrame({"x": range(1_000_000)}); address = id(df)')
const id = await sandbox.idle({ tier: 'stored' }) // asleep: no process, no memory, only bytes on disk

const again = await Sandbox.resume(id)
const { stdout } = await again.runCode('print(df.x.sum(), id(df) == address)')
console.log(stdout.trim())
assert.equal(stdout, '499999500000 True\n')

const woke = (await again.ledger().all()).findLast(({ event }) => event === 'woke')
console.log(`awake after ${Math.round(woke?.latencyMs ?? 0)} ms`)
await again.delete()
