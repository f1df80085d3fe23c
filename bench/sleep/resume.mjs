import { median, ms, summarize, table, verdict } from '../measure.mjs'
import { timed } from '../workbench.mjs'
import { foldSnapshot } from './fold.mjs'
import { takeStockSnapshot } from './stock.mjs'
import { checkAnswer, checkContent, growTree } from './tree.mjs'

const GOALS = { 1000: { ours: { atMost: 25 }, ratio: { atLeast: 30 } } }
/** Long enough for the engine's upkeep of a new snapshot. */
const UPKEEP_MS = 5_000
/** This size is measured with folded pages, too. */
const FOLDED_MB = 1000
const GROWTH = { smallest: 64, largest: 2000, goal: { atMost: 1.3 } }

/**
 * Saves the same tree twice: by stock CRIU and, after restoring that, by the engine. The same call restores both into
 * the same kind of burrow, in turns: ours, stock, ours.
 */
export async function saveBothWays(bench, heapMB) {
  const heapBytes = heapMB * 1e6
  const first = await growTree(bench.engine, heapBytes)
  await bench.pause()
  const stock = await takeStockSnapshot(bench, first)
  await expectCopied(bench, stock, heapMB)
  const again = await bench.engine.restore(stock.id, { sandboxId: first.sandboxId })
  await bench.pause()
  const { snapshot: ours } = await bench.engine.snapshot(again, { leave: 'gone' })
  if (ours.bytes.images > heapBytes / 2) throw new Error('Our snapshot copies memory instead of mapping it.')
  const folded = heapMB === FOLDED_MB ? await saveFolded(bench, ours) : undefined
  return { heapMB, ours, stock, folded }
}

/** Another snapshot of the same tree as it is after more than a minute on disk. */
async function saveFolded(bench, ours) {
  const burrow = await bench.engine.restore(ours.id, { sandboxId: ours.sandboxId })
  await bench.pause()
  const { snapshot } = await bench.engine.snapshot(burrow, { leave: 'gone' })
  await foldSnapshot(bench, snapshot.id)
  return snapshot
}

/** Every round has all sizes, so that a slow minute affects all of them. */
export async function measureResume(bench, trees, { rounds }) {
  const series = trees.map((tree) => ({
    ...tree,
    samples: { ours: emptySamples(), stock: emptySamples(), folded: emptySamples() },
  }))
  for (const { ours, stock, folded } of trees)
    for (const snapshot of [ours, stock, folded]) if (snapshot !== undefined) await warmUp(bench, snapshot)
  await bench.pause(UPKEEP_MS)
  for (let round = 0; round < rounds; round++) {
    for (const { ours, stock, folded, samples } of series) {
      await resumeOnce(bench, ours, samples.ours)
      if (folded !== undefined) await resumeOnce(bench, folded, samples.folded)
      await resumeOnce(bench, stock, samples.stock)
      await resumeOnce(bench, ours, samples.ours)
    }
  }
  for (const { stock, heapMB } of trees) await expectCopied(bench, stock, heapMB)
  const sizes = series.map(summarizeSize)
  const growth = growthOf(sizes)
  return { sizes, ...(growth && { growth }) }
}

/** Checks that upkeep has not turned the stock image into mapped memory. */
async function expectCopied({ engine }, { id }, heapMB) {
  const { bytes } = await engine.getSnapshot(id)
  if (bytes.images < heapMB * 1e6) throw new Error('The stock image does not hold the memory.')
}

function emptySamples() {
  return { call: [], answer: [] }
}

async function resumeOnce({ engine, pause }, { id, sandboxId }, samples) {
  await pause()
  const { ms: callMs, result: burrow } = await timed(() => engine.restore(id, { sandboxId }))
  const { ms: answerMs } = await timed(() => checkAnswer(burrow))
  samples.call.push(callMs)
  samples.answer.push(callMs + answerMs)
  await burrow.destroy()
}

function summarizeSize({ heapMB, samples: { ours, stock, folded } }) {
  const goals = GOALS[heapMB] ?? {}
  return {
    heapMB,
    ours: { call: summarize(ours.call), answer: summarize(ours.answer), goal: goals.ours },
    stock: { call: summarize(stock.call), answer: summarize(stock.answer) },
    ...(folded.call.length > 0 && {
      folded: { call: summarize(folded.call), answer: summarize(folded.answer), goal: goals.ours },
    }),
    stockByOurs: {
      call: median(stock.call) / median(ours.call),
      answer: median(stock.answer) / median(ours.answer),
      goal: goals.ratio,
    },
  }
}

/** The first restore of a snapshot checks all of its images. This also compares every byte of memory. */
async function warmUp({ engine }, { id, sandboxId }) {
  const burrow = await engine.restore(id, { sandboxId })
  await checkContent(burrow)
  await burrow.destroy()
}

export function describeResume({ sizes, growth }) {
  const rows = sizes.map(({ heapMB, ours, stock, stockByOurs }) => [
    `${heapMB} MB`,
    pair(ours.call),
    pair(ours.answer),
    pair(stock.call),
    pair(stock.answer),
    `${stockByOurs.call.toFixed(1)} / ${stockByOurs.answer.toFixed(1)}`,
    [verdict(ours.call.p50, ours.goal, 'ms'), verdict(stockByOurs.call, stockByOurs.goal, '×')]
      .filter(Boolean)
      .join('; '),
  ])
  const counts = `ours ${sizes[0].ours.call.times} times, stock ${sizes[0].stock.call.times} times`
  const lines = [
    `Resume from \`stored\`, p50 / p99 in ms, ${counts} per size, in turns:`,
    '',
    table(
      ['heap', 'ours, call', '… first result', 'stock, call', '… first result', 'stock / ours', 'goals'],
      rows,
    ),
  ]
  for (const { heapMB, ours, folded } of sizes)
    if (folded !== undefined) lines.push('', describeFolded({ heapMB, ours, folded }))
  if (growth !== undefined) {
    const { largest, smallest, ratio } = growth
    const goal = growth.goal === undefined ? '' : ` (goal ${verdict(ratio, growth.goal)})`
    lines.push('', `Ours, ${largest} MB / ${smallest} MB: ${ratio.toFixed(2)}${goal}.`)
  }
  return lines.join('\n')
}

function describeFolded({ heapMB, ours, folded }) {
  const { call, answer, goal } = folded
  return [
    `After more than a minute on disk, with [folded pages](decisions/0118-folded-pages.md), ${heapMB} MB take`,
    `${pair(call)} (call; ${verdict(call.p50, goal, 'ms')}) and ${pair(answer)} (first result), ${call.times} times:`,
    `${(call.p50 / ours.call.p50).toFixed(2)} × the call without.`,
  ].join('\n')
}

function growthOf(sizes) {
  const [smallest, largest] = [sizes[0], sizes.at(-1)]
  if (smallest === largest) return undefined
  const ratio = largest.ours.call.p50 / smallest.ours.call.p50
  const isWhole = smallest.heapMB === GROWTH.smallest && largest.heapMB === GROWTH.largest
  return { largest: largest.heapMB, smallest: smallest.heapMB, ratio, ...(isWhole && { goal: GROWTH.goal }) }
}

function pair({ p50, p99 }) {
  return `${ms(p50)} / ${ms(p99)}`
}
