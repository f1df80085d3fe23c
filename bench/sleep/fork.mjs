import { newSandboxId } from '@dormouse/contracts'
import { megabytes, ms, summarize, table, verdict } from '../measure.mjs'
import { burrowMemory } from '../memory.mjs'
import { timed } from '../workbench.mjs'
import { copyToFile } from './control.mjs'
import { checkAnswer, growTree } from './tree.mjs'

const GOALS = { 1: { atMost: 120 }, 10: { atMost: 300 }, 100: { atMost: 2500 } }
const FIRST_GOAL = { atMost: 900 }
const FIRST_GOAL_RATIO = 1.5
const PRIVATE_GOAL = { atMost: 4 }
const MEMORY_KEYS = ['privateDirty', 'anonymous', 'pss', 'charged']

/** Times a fork until every child has answered. The parent woke before, so its memory is already in memory files. */
export async function measureFork(bench, base, { counts, times }) {
  const results = []
  for (const count of counts) {
    const samples = emptySamples()
    for (let i = 0; i < times; i++) {
      await bench.pause()
      const parent = await bench.engine.restore(base.id, { sandboxId: base.sandboxId })
      await checkAnswer(parent)
      await bench.pause(1000)
      await forkOnce(bench, parent, { count, samples })
    }
    results.push(summary(samples, { count, goal: GOALS[count] }))
  }
  return results
}

/** Times forks of a parent that was never saved: the fork first saves all of its memory. */
export async function measureFirstFork(bench, { heapBytes, count, times }) {
  const samples = emptySamples()
  const control = []
  for (let i = 0; i < times; i++) {
    const parent = await growTree(bench.engine, heapBytes)
    control.push(copyToFile(bench.layout.snapshotsDir, heapBytes))
    await bench.pause(1000)
    await forkOnce(bench, parent, { count, samples })
  }
  return { ...summary(samples, { count, goal: FIRST_GOAL }), control: summarize(control) }
}

function emptySamples() {
  return { call: [], answers: [], children: [] }
}

async function forkOnce({ engine }, parent, { count, samples }) {
  const sandboxIds = Array.from({ length: count }, newSandboxId)
  const { ms: callMs, result: forked } = await timed(() => engine.fork(parent, { sandboxIds }))
  const { ms: answersMs } = await timed(() => Promise.all(forked.children.map(checkAnswer)))
  samples.call.push(callMs)
  samples.answers.push(callMs + answersMs)
  for (const child of forked.children) samples.children.push(await burrowMemory(child))
  for (const burrow of [forked.parent, ...forked.children]) await burrow.destroy()
  await engine.deleteSnapshot(forked.snapshot.id)
}

function summary({ call, answers, children }, { count, goal }) {
  const perChild = Object.fromEntries(
    MEMORY_KEYS.map((key) => [key, summarize(children.map((memory) => memory[key]))]),
  )
  return {
    count,
    call: summarize(call),
    answers: { ...summarize(answers), ...(goal && { goal }) },
    perChild,
    privateGoalMB: PRIVATE_GOAL,
  }
}

export function describeFork({ saved, first }) {
  const rows = [
    ...saved.map((result) => row(`fork(${result.count})`, result)),
    ...(first === undefined ? [] : [row(`fork(${first.count}), parent never saved before`, first)]),
  ]
  return [
    'Fork of a 1 GB parent, to the first results of all children; memory of a child (all of its processes) in MB, p50 and p99:',
    '',
    table(
      [
        'what',
        'times',
        'call, p50 / p99 ms',
        'all results, p50 / p99 ms',
        'goal',
        'private dirty',
        'goal',
        'Pss',
        'charged by its cgroup',
      ],
      rows,
    ),
    ...(first === undefined ? [] : ['', describeFirst(first)]),
  ].join('\n')
}

function describeFirst({ count, answers, control }) {
  const ratio = answers.p50 / control.p50
  const verdictOfRatio = ratio <= FIRST_GOAL_RATIO ? 'met' : '**missed**'
  return `Control: copying 1 GB once to a new file in the page cache takes ${ms(control.p50)} ms in the same run. fork(${count}) of a parent that was never saved takes ${ratio.toFixed(2)} × that (goal ≤ ${FIRST_GOAL_RATIO} ×, ${verdictOfRatio}).`
}

function row(title, { call, answers, perChild, privateGoalMB }) {
  const { privateDirty, pss, charged } = perChild
  const memory = ({ p50, p99 }) => `${megabytes(p50)}, ${megabytes(p99)}`
  return [
    title,
    answers.times,
    `${ms(call.p50)} / ${ms(call.p99)}`,
    `${ms(answers.p50)} / ${ms(answers.p99)}`,
    verdict(answers.p50, answers.goal, 'ms'),
    memory(privateDirty),
    verdict(privateDirty.p50 / 1e6, privateGoalMB, 'MB'),
    memory(pss),
    memory(charged),
  ]
}
