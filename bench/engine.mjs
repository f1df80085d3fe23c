// Hot run and create latency, through the engine: no HTTP, no server.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { newSandboxId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { describeMachine, measure, percentiles, table, writeSection } from './measure.mjs'

const { values } = parseArgs({
  options: {
    data: { type: 'string', default: '/var/lib/dormouse' },
    write: { type: 'boolean', default: false },
  },
})
const stateDir = await mkdtemp(join(tmpdir(), 'dormouse-bench-'))
const engine = await LinuxEngine.open({ dataDir: values.data, stateDir })
const request = () => ({ sandboxId: newSandboxId(), template: 'python' })
const rows = []

async function benchHotRuns() {
  const burrow = await engine.createBurrow(request())
  const run = (code, language) => () => burrow.guest.runs.run({ code, language })
  rows.push({
    ...(await measure({ title: 'hot run, `print(1)`', warmUp: 200, times: 2000, work: run('print(1)') })),
    goal: '≤ 1 ms p50',
  })
  rows.push(await measure({ title: 'hot run, an expression', warmUp: 50, times: 500, work: run('40 + 2') }))
  rows.push(await measure({ title: 'bash, `echo 1`', warmUp: 20, times: 200, work: run('echo 1', 'bash') }))
  await burrow.destroy()
}

async function benchCreate() {
  const created = []
  const firstRun = []
  const destroyed = []
  for (let i = 0; i < 20; i++) {
    const start = performance.now()
    const burrow = await engine.createBurrow(request())
    created.push(performance.now() - start)
    await burrow.guest.runs.run({ code: 'print(1)' })
    firstRun.push(performance.now() - start)
    const beforeDestroy = performance.now()
    await burrow.destroy()
    destroyed.push(performance.now() - beforeDestroy)
  }
  rows.push({ title: 'create, until the agent answers', times: created.length, ...percentiles(created) })
  rows.push({ title: 'create, until the first result', times: firstRun.length, ...percentiles(firstRun) })
  rows.push({ title: 'destroy', times: destroyed.length, ...percentiles(destroyed) })
}

try {
  await benchHotRuns()
  await benchCreate()
} finally {
  const { burrows } = await engine.adoptBurrows()
  for (const burrow of burrows) await burrow.destroy()
  await engine[Symbol.asyncDispose]()
  await rm(stateDir, { recursive: true, force: true })
}

const report = `${table(rows)}\n\n${new Date().toISOString().slice(0, 10)}, ${describeMachine()}. \`node bench/engine.mjs\``
console.log(report)
if (values.write) await writeSection('engine', report)
