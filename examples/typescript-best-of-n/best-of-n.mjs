// Tries several ideas for one problem, each in a fork of the same prepared sandbox. The sandbox continues as the best
// fork. Start a server, then run: node examples/typescript-best-of-n/best-of-n.mjs
import assert from 'node:assert/strict'
import { Sandbox } from 'dormouse'

const sandbox = await Sandbox.create()
await sandbox.runCode(`
import numpy as np
x = np.linspace(0, 1, 200)
y = np.sin(6 * x) + np.random.default_rng(1).normal(0, 0.05, x.size)
`)

const ideas = [1, 3, 5].map((degree) => `model = np.poly1d(np.polyfit(x, y, ${degree}))`)
const { winner, ranking } = await sandbox.race([...ideas, 'model = np.undefined_idea(x)'], {
  score: '((model(x) - y) ** 2).mean()',
  best: 'lowest',
})
for (const { rank, index, score, error } of ranking)
  console.log(rank, `idea ${index}`, score?.toFixed(4) ?? error?.message)
assert.deepEqual(
  ranking.map(({ index }) => index),
  [2, 1, 0, 3],
)

await winner.promote() // the sandbox continues with the winner's model in memory; the fork is deleted
const degree = await sandbox.runCode('model.order')
console.log(`a polynomial of degree ${degree.text} won`)
assert.equal(degree.text, '5')
await sandbox.delete()
