// Measures sleep, wake and fork through the engine, compared with stock CRIU, which restores the unmodified image of
// the same process tree.
import { report } from './measure.mjs'
import { describeAlive, measureAlive } from './sleep/alive.mjs'
import { describeAwake, measureCreate, measureThaw } from './sleep/awake.mjs'
import { describeFirstTouch, measureFirstTouch } from './sleep/first-touch.mjs'
import { describeFork, measureFirstFork, measureFork } from './sleep/fork.mjs'
import { describeResume, measureResume, saveBothWays } from './sleep/resume.mjs'
import { describeSnapshots, measureSnapshots } from './sleep/snapshots.mjs'
import { atWorkbench, readOptions } from './workbench.mjs'

const PARTS = ['resume', 'awake', 'alive', 'snapshots', 'touch', 'fork']
const options = readOptions({ only: { type: 'string' } })
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
  moves: 1,
}
const times = options.quick ? QUICK : FULL
const heapsMB = options.quick ? [64, 1000] : [64, 256, 1000, 2000]
/** The heap size of all parts but resume: 1 GB. */
const MAIN_MB = 1000
const heapBytes = MAIN_MB * 1e6

const result = await atWorkbench(options, async (bench) => {
  const measured = {}
  const step = async (name, work) => {
    console.error(`… ${name}`)
    measured[name] = await work()
  }
  if (parts.has('awake')) await step('create', () => measureCreate(bench, { times: times.creates }))

  console.error('… saving')
  const trees = []
  for (const heapMB of parts.has('resume') ? heapsMB : [MAIN_MB])
    trees.push(await saveBothWays(bench, heapMB))
  const main = trees.find(({ heapMB }) => heapMB === MAIN_MB)
  if (parts.has('resume')) await step('resume', () => measureResume(bench, trees, { rounds: times.rounds }))
  for (const { ours, stock } of trees.filter((tree) => tree !== main))
    for (const { id } of [ours, stock]) await bench.engine.deleteSnapshot(id)

  if (parts.has('awake')) await step('thaw', () => measureThaw(bench, main.ours, { times: times.thaws }))
  if (parts.has('touch'))
    await step('touch', () => measureFirstTouch(bench, main, { heapBytes, rounds: times.touches }))
  if (parts.has('alive')) await step('alive', () => measureAlive(bench, { heapBytes, times: times.moves }))
  if (parts.has('snapshots'))
    await step('snapshots', () =>
      measureSnapshots(bench, main.ours, {
        heapBytes,
        firstTimes: times.firstSnapshots,
        times: times.snapshots,
      }),
    )
  if (parts.has('fork'))
    await step('fork', async () => ({
      saved: await measureFork(bench, main.ours, {
        counts: options.quick ? [1, 10] : [1, 5, 10, 100],
        times: times.forks,
      }),
      first: await measureFirstFork(bench, { heapBytes, count: 5, times: options.quick ? 1 : 5 }),
    }))
  return measured
})

const sections = [
  result.resume && describeResume(result.resume),
  result.create && describeAwake(result),
  result.alive && describeAlive(result.alive),
  result.snapshots && describeSnapshots(result.snapshots),
  result.fork && describeFork(result.fork),
  result.touch && describeFirstTouch(result.touch),
]
await report({
  name: 'sleep',
  // The results of a part do not replace those of a whole run.
  options: { ...options, dry: options.dry || options.only !== undefined },
  result,
  text: sections.filter(Boolean).join('\n\n'),
})
