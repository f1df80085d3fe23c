// Processes many inputs with one prepared sandbox: each input gets its own fork, a few at a time. A failure affects
// only its own input. Start a server, then run: node examples/typescript-batch/batch.mjs
import assert from 'node:assert/strict'
import { Sandbox } from 'dormouse'

const sandbox = await Sandbox.create()
await sandbox.runCode('import pandas as pd; prices = pd.Series({"tea": 3, "coffee": 4, "cake": 5})')

const orders = [['tea', 'cake'], ['coffee'], ['soup'], ['cake', 'cake']]
const outcomes = await sandbox.map(orders, 'int(sum(prices[each] for each in order))', {
  variable: 'order',
  concurrency: 2,
})
const totals = outcomes.map((outcome) => (outcome.ok ? outcome.value.text : outcome.error.message))
console.log(totals)
assert.deepEqual(totals, ['8', '4', "KeyError: 'soup'", '10'])
await sandbox.delete()
