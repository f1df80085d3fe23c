// Sleep, wake and fork through the engine, beside stock CRIU restoring the unmodified image of the same tree.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { newSandboxId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { describeMachine, percentiles, table, writeSection } from './measure.mjs'

const { values } = parseArgs({
  options: {
    data: { type: 'string', default: '/var/lib/dormouse' },
    write: { type: 'boolean', default: false },
    times: { type: 'string', default: '15' },
  },
})
const TIMES = Number(values.times)
// Spares are made in the background; a sandbox that is woken once in a while finds them ready.
const PAUSE_MS = 400
const GIB = 1024 ** 3
const limits = { memoryBytes: 6 * GIB, cpus: 2 }
const stateDir = await mkdtemp(join(tmpdir(), 'dormouse-bench-'))
const engine = await LinuxEngine.open({ dataDir: values.data, stateDir })
const rows = []

async function timed(work) {
  const start = performance.now()
  const result = await work()
  return { ms: performance.now() - start, result }
}

async function loaded(megabytes) {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', limits })
  const code = `import numpy as np; a = np.random.default_rng(1).random(${megabytes} * 131072); total = a.sum(); address = id(a)`
  const run = await burrow.guest.runs.run({ code })
  if (run.exitCode !== 0) throw new Error(run.stderr)
  return burrow
}

async function check(burrow) {
  const run = await burrow.guest.runs.run({ code: 'print(id(a) == address)' })
  if (run.stdout !== 'True\n') throw new Error(`wrong after a wake: ${JSON.stringify(run)}`)
}

async function benchResume(megabytes, goal) {
  const burrow = await loaded(megabytes)
  const first = await timed(() => engine.snapshot(burrow, { leave: 'gone' }))
  const { snapshot } = first.result
  const resumed = []
  const answered = []
  for (let i = 0; i < TIMES; i++) {
    await sleep(PAUSE_MS)
    const { ms, result } = await timed(() => engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
    const answer = await timed(() => check(result))
    if (i > 0) resumed.push(ms)
    if (i > 0) answered.push(ms + answer.ms)
    await result.destroy()
  }
  rows.push({
    title: `resume from stored, ${megabytes} MB`,
    times: resumed.length,
    ...percentiles(resumed),
    goal,
  })
  rows.push({ title: `… to the first result`, times: answered.length, ...percentiles(answered) })
  return { snapshot, sandboxId: burrow.sandboxId, firstMs: first.ms }
}

async function benchSnapshots({ snapshot, sandboxId, firstMs }) {
  rows.push({ title: 'first snapshot, 1 GB', times: 1, p50Ms: firstMs, p99Ms: firstMs })
  const second = []
  for (let i = 0; i < 5; i++) {
    await sleep(PAUSE_MS)
    const burrow = await engine.restore(snapshot.id, { sandboxId })
    await burrow.guest.runs.run({ code: 'a[:10 * 131072] += 1' })
    const { ms, result } = await timed(() => engine.snapshot(burrow, { leave: 'gone' }))
    second.push(ms)
    await engine.deleteSnapshot(result.snapshot.id)
  }
  rows.push({
    title: 'snapshot after changing 10 MB of 1 GB',
    times: 5,
    ...percentiles(second),
    goal: '≤ 150 ms',
  })
}

async function benchFrozen({ snapshot, sandboxId }) {
  const burrow = await engine.restore(snapshot.id, { sandboxId })
  const thawed = []
  for (let i = 0; i < 100; i++) {
    await burrow.freeze()
    thawed.push((await timed(() => burrow.thaw())).ms)
  }
  rows.push({ title: 'thaw from frozen', times: 100, ...percentiles(thawed), goal: '≤ 1 ms' })
  await burrow.destroy()
}

async function benchFork({ snapshot, sandboxId }) {
  for (const count of [1, 5, 10]) {
    await sleep(PAUSE_MS * 2)
    const burrow = await engine.restore(snapshot.id, { sandboxId })
    const start = performance.now()
    const sandboxIds = Array.from({ length: count }, newSandboxId)
    const forked = await engine.fork(burrow, { sandboxIds })
    await Promise.all(forked.children.map(check))
    const ms = performance.now() - start
    const goal = count === 10 ? '≤ 400 ms' : undefined
    rows.push({ title: `fork(${count}) of 1 GB to all first results`, times: 1, p50Ms: ms, p99Ms: ms, goal })
    const usage = await forked.children[0].usage()
    console.error(`fork(${count}): ${(usage.memoryBytes / 1e6).toFixed(1)} MB charged to a child`)
    for (const each of [forked.parent, ...forked.children]) await each.destroy()
    await engine.deleteSnapshot(forked.snapshot.id)
  }
}

async function benchCreate() {
  const created = []
  for (let i = 0; i < TIMES; i++) {
    await sleep(PAUSE_MS)
    const { ms, result } = await timed(() =>
      engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' }),
    )
    if (i > 0) created.push(ms)
    await result.destroy()
  }
  rows.push({
    title: 'create, numpy, pandas and matplotlib imported',
    times: created.length,
    ...percentiles(created),
    goal: '≤ 30 ms',
  })
}

try {
  await benchCreate()
  await benchResume(64)
  const oneGigabyte = await benchResume(1024, '≤ 25 ms')
  await benchResume(2048)
  await benchSnapshots(oneGigabyte)
  await benchFrozen(oneGigabyte)
  await benchFork(oneGigabyte)
} finally {
  const { burrows } = await engine.adoptBurrows()
  for (const burrow of burrows) await burrow.destroy()
  await engine[Symbol.asyncDispose]()
  await rm(stateDir, { recursive: true, force: true })
}

const report = `${table(rows)}\n\n${new Date().toISOString().slice(0, 10)}, ${describeMachine()}. \`node bench/sleep.mjs\``
console.log(report)
if (values.write) await writeSection('sleep', report)
