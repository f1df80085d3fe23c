// Measures sleep, wake and fork through the engine, compared with stock CRIU, which restores the unmodified image of
// the same process tree.
import { report } from './measure.mjs'
import { describeAlive, measureAlive } from './sleep/alive.mjs'
import { describeAwake, measureAwake } from './sleep/awake.mjs'
import { describeFirstTouch, measureFirstTouch } from './sleep/first-touch.mjs'
import { foldNone } from './sleep/fold.mjs'
import { describeFork, measureFirstFork, measureFork } from './sleep/fork.mjs'
import { describeResume, measureResume, saveBothWays } from './sleep/resume.mjs'
import { describeSnapshots, measureSnapshots } from './sleep/snapshots.mjs'
import { atWorkbench, readOptions } from './workbench.mjs'

const PARTS = ['resume', 'awake', 'alive', 'snapshots', 'touch', 'fork']
const options = readOptions({ only: { type: 'string' }, times: { type: 'string' } })
const parts = new Set(options.only?.split(',') ?? PARTS)
const unknown = [...parts].filter((part) => !PARTS.includes(part))
if (unknown.length > 0) throw new Error(`--only takes ${PARTS.join()}, not ${unknown.join()}.`)

const FULL = {
  rounds: 20,
  creates: 40,
  thaws: 200,
  firstSnapshots: 5,
  snapshots: 15,
  touches: 8,
  forks: 7,
  firstForks: 5,
  moves: 5,
}
const QUICK = {
  rounds: 2,
  creates: 3,
  thaws: 10,
  firstSnapshots: 1,
  snapshots: 2,
  touches: 1,
  forks: 1,
  firstForks: 1,
  moves: 1,
}
const most = Number(options.times ?? Number.POSITIVE_INFINITY)
const times = Object.fromEntries(
  Object.entries(options.quick ? QUICK : FULL).map(([name, count]) => [name, Math.min(count, most)]),
)
const heapsMB = options.quick ? [64, 1000] : [64, 256, 1000, 2000]
/** The heap size of all parts but resume: 1 GB. */
const MAIN_MB = 1000
const heapBytes = MAIN_MB * 1e6

/** Each part writes a section of its own. */
await atWorkbench(options, async (bench) => {
  foldNone(bench.engine)
  const step = async (name, work, describe) => {
    if (!parts.has(name)) return
    console.error(`… ${name}`)
    const result = await work()
    await report({ name, program: 'sleep', options, result, text: describe(result) })
  }
  await step('alive', () => measureAlive(bench, { heapBytes, times: times.moves }), describeAlive)
  if (parts.size === 1 && parts.has('alive')) return
  const main = await measureSizes(bench, step)
  await step('awake', () => measureAwake(bench, main.ours, times), describeAwake)
  await step(
    'touch',
    () => measureFirstTouch(bench, main, { heapBytes, rounds: times.touches }),
    describeFirstTouch,
  )
  await step(
    'snapshots',
    () =>
      measureSnapshots(bench, main.ours, {
        heapBytes,
        firstTimes: times.firstSnapshots,
        times: times.snapshots,
      }),
    describeSnapshots,
  )
  await step('fork', () => measureForks(bench, main.ours), describeFork)
})

/** Returns the snapshots of 1 GB, which the other parts use. */
async function measureSizes(bench, step) {
  console.error('… saving')
  const trees = []
  for (const heapMB of parts.has('resume') ? heapsMB : [MAIN_MB])
    trees.push(await saveBothWays(bench, heapMB))
  await step('resume', () => measureResume(bench, trees, { rounds: times.rounds }), describeResume)
  const main = trees.find(({ heapMB }) => heapMB === MAIN_MB)
  for (const { ours, stock, folded } of trees) {
    const unused = ours === main.ours ? [folded] : [ours, stock, folded]
    for (const snapshot of unused) if (snapshot !== undefined) await bench.engine.deleteSnapshot(snapshot.id)
  }
  return main
}

async function measureForks(bench, base) {
  const counts = options.quick ? [1, 10] : [1, 5, 10, 100]
  return {
    saved: await measureFork(bench, base, { counts, times: times.forks }),
    first: await measureFirstFork(bench, { heapBytes, count: 5, times: times.firstForks }),
  }
}
