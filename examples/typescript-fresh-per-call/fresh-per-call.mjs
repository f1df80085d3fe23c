// Runs every call of untrusted code in a fresh sandbox, so that nothing it leaves behind reaches the next call.
// Start a server, then run: node examples/typescript-fresh-per-call/fresh-per-call.mjs
import assert from 'node:assert/strict'
import { Sandbox } from 'dormouse'

const POISON = `
import builtins, pathlib
builtins.sum = lambda values: 0
pathlib.Path('/root/pandas.py').write_text('raise SystemExit')
`
const OUTSIDE = 'import socket; socket.create_connection(("192.0.2.1", 443), timeout=5).recv(1)'

/** Runs the code in a new sandbox without a network, and deletes the sandbox whatever the code did. */
async function runOnce(code) {
  const sandbox = await Sandbox.create({ ephemeral: true, network: { mode: 'none' } })
  try {
    return await answerOf(sandbox, code)
  } finally {
    await sandbox.delete()
  }
}

/** The same for data that takes long to load: `clean` holds it and runs only our own code; every call gets a fork. */
async function runOnceWith(clean, code) {
  const [child] = await clean.fork(1)
  try {
    return await answerOf(child, code)
  } finally {
    await child.delete()
  }
}

async function answerOf(sandbox, code) {
  const { error, text } = await sandbox.runCode(code, { timeoutMs: 5_000 })
  return error === undefined ? text : error.name
}

const shown = []
const show = (what, answer) => {
  shown.push(answer)
  console.log(what, answer)
}

show('poisoned:', await runOnce(`${POISON}sum([1, 2])`))
show('the next call:', await runOnce('import pandas; sum([1, 2])'))
show('a way out:', (await runOnce(OUTSIDE)) ?? 'reached')
show('too long:', await runOnce('while True: pass'))

const clean = await Sandbox.create({ network: { mode: 'none' } })
await clean.runCode('prices = list(range(1_000_000))')
show('poisoned, with data:', await runOnceWith(clean, `${POISON}prices.clear(); len(prices)`))
show('the next call, with data:', await runOnceWith(clean, 'sum(prices)'))
await clean.delete()

assert.deepEqual(shown.slice(0, 2), ['0', '3'])
assert.match(shown[2], /Error$/)
assert.equal(shown[3], 'RunTimeout')
assert.deepEqual(shown.slice(4), ['0', '499999500000'])
