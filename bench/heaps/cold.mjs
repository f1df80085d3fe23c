import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { median, ms, summarize, table, verdict } from '../measure.mjs'
import { dropFromCache } from '../sleep/disk.mjs'
import { checkAnswer, growTree, sumMs } from '../sleep/tree.mjs'

const GOALS = { answer: { atMost: 2.5 }, sum: { atMost: 1.3 } }
/** The next sleep keeps what a wake has touched by then. */
const UNTIL_LISTED_MS = 800

/** The control: the data of a sparse file from start to end, with read(2). */
const READ = `
import os, sys, time
start = time.perf_counter(); file = os.open(sys.argv[1], os.O_RDONLY); at = 0; size = os.fstat(file).st_size
while at < size:
    try: at = os.lseek(file, at, os.SEEK_DATA)
    except OSError: break
    end = os.lseek(file, at, os.SEEK_HOLE)
    while at < end: at += len(os.pread(file, min(1 << 20, end - at), at))
print((time.perf_counter() - start) * 1e3)`

/** Wakes with the snapshot's files in the page cache, without, and without either files or the list of ranges. */
export async function measureCold(bench, { heapMB, rounds }) {
  const first = await growTree(bench.engine, heapMB * 1e6)
  await bench.pause()
  const { snapshot: fresh } = await bench.engine.snapshot(first, { leave: 'gone' })
  const woken = await bench.engine.restore(fresh.id, { sandboxId: fresh.sandboxId })
  await checkAnswer(woken)
  await bench.pause(UNTIL_LISTED_MS)
  const { snapshot } = await bench.engine.snapshot(woken, { leave: 'gone' })
  await bench.engine.deleteSnapshot(fresh.id)
  await bench.engine.upkeep()
  const dir = bench.layout.snapshot(snapshot.id).dir
  const samples = { warm: empty(), cold: empty(), unlisted: empty(), read: [] }
  for (let round = -1; round < rounds; round++) {
    for (const kind of ['warm', 'cold', 'unlisted']) {
      await bench.pause(UNTIL_LISTED_MS)
      if (kind !== 'warm') await dropFromCache(dir)
      if (kind === 'unlisted') await rename(join(dir, 'ahead'), join(dir, 'ahead-kept'))
      const measured = await wakeOnce(bench, snapshot)
      if (kind === 'unlisted') await rename(join(dir, 'ahead-kept'), join(dir, 'ahead'))
      if (round >= 0) for (const [name, value] of Object.entries(measured)) samples[kind][name].push(value)
    }
    await bench.pause(UNTIL_LISTED_MS)
    await dropFromCache(dir)
    const readMs = Number(execFileSync('python3', ['-c', READ, await largestFile(join(dir, 'memory'))]))
    if (round >= 0) samples.read.push(readMs)
  }
  await bench.engine.deleteSnapshot(snapshot.id)
  const summary = (kind) =>
    Object.fromEntries(Object.entries(samples[kind]).map(([name, values]) => [name, summarize(values)]))
  return {
    heapMB,
    kinds: { warm: summary('warm'), cold: summary('cold'), unlisted: summary('unlisted') },
    read: summarize(samples.read),
    ratios: {
      answer: median(samples.cold.answer) / median(samples.warm.answer),
      sum: median(samples.cold.sum) / median(samples.read),
    },
  }
}

function empty() {
  return { call: [], answer: [], sum: [] }
}

async function wakeOnce(bench, { id, sandboxId }) {
  const start = performance.now()
  const burrow = await bench.engine.restore(id, { sandboxId })
  const call = performance.now() - start
  await checkAnswer(burrow)
  const answer = performance.now() - start
  const sum = await sumMs(burrow)
  await burrow.destroy()
  return { call, answer, sum }
}

async function largestFile(directory) {
  const paths = (await readdir(directory)).map((name) => join(directory, name))
  return paths.sort((one, other) => statSync(other).blocks - statSync(one).blocks)[0]
}

export function describeCold({ heapMB, kinds, read, ratios }) {
  const TITLES = { warm: 'warm', cold: 'cold', unlisted: 'cold, without the list' }
  const pair = ({ p50, p99 }) => `${ms(p50)} / ${ms(p99)}`
  const rows = Object.entries(kinds).map(([kind, { call, answer, sum }]) => [
    TITLES[kind],
    pair(call),
    pair(answer),
    pair(sum),
  ])
  return [
    `A frame of ${heapMB} MB with the snapshot's files in the page cache or not, p50 / p99 in ms, ${read.times} times each, in turns:`,
    '',
    table(['page cache', 'call', 'first result', 'first sum of the frame'], rows),
    '',
    `Reading the memory file from start to end, cold: ${pair(read)} ms. First result cold / warm: ${ratios.answer.toFixed(2)} (${verdict(ratios.answer, GOALS.answer)}). First sum / reading: ${ratios.sum.toFixed(2)} (${verdict(ratios.sum, GOALS.sum)}).`,
  ].join('\n')
}
