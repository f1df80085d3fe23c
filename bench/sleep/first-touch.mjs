import { ms, summarize, table } from '../measure.mjs'
import { timed } from '../workbench.mjs'
import { dropFromCache } from './disk.mjs'
import { growTree, sumMs } from './tree.mjs'

/** The sandbox that never slept keeps the template's memory in the page cache, so a small share stays warm. */
const COLD_MAX_SHARE = 0.1

/**
 * Measures the work that a mapped wake defers: the kernel reads pages when they are first touched. Times the sum of the
 * whole frame, inside, in a process that never slept, after our resume with warm and with cold page cache, and after a
 * resume by stock CRIU.
 */
export async function measureFirstTouch(bench, { ours, stock }, { heapBytes, rounds }) {
  const kinds = {
    never: { first: [], second: [] },
    warm: { resume: [], first: [], second: [] },
    cold: { resume: [], first: [], second: [] },
    stock: { resume: [], first: [], second: [] },
  }
  const touch = async (kind, snapshot) => {
    await bench.pause()
    if (kind === 'cold') await makeCold(bench, snapshot, heapBytes)
    const { ms: resumeMs, result: burrow } = await timed(() =>
      bench.engine.restore(snapshot.id, { sandboxId: snapshot.sandboxId }),
    )
    kinds[kind].resume.push(resumeMs)
    kinds[kind].first.push(await sumMs(burrow))
    kinds[kind].second.push(await sumMs(burrow))
    await burrow.destroy()
  }
  const awake = await growTree(bench.engine, heapBytes)
  await touchOnce(bench, ours)
  for (let round = 0; round < rounds; round++) {
    kinds.never.first.push(await sumMs(awake))
    kinds.never.second.push(await sumMs(awake))
    await touch('warm', ours)
    await touch('stock', stock)
    await touch('cold', ours)
    await touchOnce(bench, ours)
  }
  await awake.destroy()
  return Object.fromEntries(
    Object.entries(kinds).map(([kind, samples]) => [
      kind,
      Object.fromEntries(Object.entries(samples).map(([name, values]) => [name, summarize(values)])),
    ]),
  )
}

/** Warms the page cache. */
async function touchOnce({ engine }, { id, sandboxId }) {
  const burrow = await engine.restore(id, { sandboxId })
  await sumMs(burrow)
  await burrow.destroy()
}

async function makeCold({ layout }, { id }, heapBytes) {
  const leftBytes = await dropFromCache(layout.snapshot(id).dir)
  if (leftBytes > heapBytes * COLD_MAX_SHARE)
    throw new Error(`${leftBytes} bytes are still in the page cache.`)
}

const TITLES = {
  never: 'never slept',
  warm: 'ours, page cache warm',
  cold: 'ours, page cache cold',
  stock: 'stock CRIU, page cache warm',
}

export function describeFirstTouch(kinds) {
  const rows = Object.entries(kinds).map(([kind, { resume, first, second }]) => [
    TITLES[kind],
    first.times,
    resume && `${ms(resume.p50)} / ${ms(resume.p99)}`,
    `${ms(first.p50)} / ${ms(first.p99)}`,
    `${ms(second.p50)} / ${ms(second.p99)}`,
    (first.p50 / kinds.never.first.p50).toFixed(2),
  ])
  return [
    'First touch: summing the whole frame of 1 GB (p50 / p99 in ms, timed inside), in turns:',
    '',
    table(['process', 'times', 'resume', 'first sum', 'second sum', 'first sum / never slept'], rows),
  ].join('\n')
}
