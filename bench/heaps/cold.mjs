import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { median, ms, summarize, table, verdict } from '../measure.mjs'
import { dropFromCache } from '../sleep/disk.mjs'
import { foldNone, foldSnapshot } from '../sleep/fold.mjs'
import { checkAnswer, growTree, sumMs } from '../sleep/tree.mjs'
import { findCurrent } from './measure-files.mjs'

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

/** What is woken, and the state of the page cache before. `folded` is the form after more than a minute on disk. */
const KINDS = {
  warm: { form: 'plain', isCold: false },
  cold: { form: 'plain', isCold: true },
  unlisted: { form: 'plain', isCold: true, isUnlisted: true },
  foldedWarm: { form: 'folded', isCold: false },
  foldedCold: { form: 'folded', isCold: true },
}

/** Wakes with the snapshot's files in the page cache, without, and without either files or the list of ranges. */
export async function measureCold(bench, { heapMB, rounds }) {
  foldNone(bench.engine)
  const forms = await saveForms(bench, heapMB)
  const samples = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, empty()]))
  const read = []
  for (let round = -1; round < rounds; round++) {
    for (const [kind, how] of Object.entries(KINDS)) {
      const measured = await wakeAs(bench, forms[how.form], how)
      if (round >= 0) for (const [name, value] of Object.entries(measured)) samples[kind][name].push(value)
    }
    const readMs = await readFromDisk(bench, forms.plain)
    if (round >= 0) read.push(readMs)
  }
  for (const { id } of Object.values(forms)) await bench.engine.deleteSnapshot(id)
  const summary = (kind) =>
    Object.fromEntries(Object.entries(samples[kind]).map(([name, values]) => [name, summarize(values)]))
  const answers = (kind) => median(samples[kind].answer)
  return {
    heapMB,
    kinds: Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, summary(kind)])),
    read: summarize(read),
    ratios: {
      answer: answers('cold') / answers('warm'),
      foldedAnswer: answers('foldedCold') / answers('foldedWarm'),
      sum: median(samples.cold.sum) / median(read),
    },
  }
}

/** The same frame twice, as a second sleep leaves it: with the list of what the wake before has touched. */
async function saveForms(bench, heapMB) {
  const first = await growTree(bench.engine, heapMB * 1e6)
  await bench.pause()
  const { snapshot: fresh } = await bench.engine.snapshot(first, { leave: 'gone' })
  const saveAgain = async () => {
    const woken = await bench.engine.restore(fresh.id, { sandboxId: fresh.sandboxId })
    await checkAnswer(woken)
    await bench.pause(UNTIL_LISTED_MS)
    return (await bench.engine.snapshot(woken, { leave: 'gone' })).snapshot
  }
  const forms = { plain: await saveAgain(), folded: await saveAgain() }
  await bench.engine.deleteSnapshot(fresh.id)
  await bench.engine.upkeep()
  await foldSnapshot(bench, forms.folded.id)
  return forms
}

/** Before a warm wake comes one that does not count, because the kind before may have left the page cache cold. */
async function wakeAs(bench, snapshot, { isCold, isUnlisted }) {
  const { dir } = bench.layout.snapshot(snapshot.id)
  await bench.pause(UNTIL_LISTED_MS)
  if (isCold) await dropFromCache(dir)
  else await wakeOnce(bench, snapshot)
  const list = join(dir, 'ahead')
  const kept = isUnlisted ? await readFile(list) : undefined
  // Without the file the list would be made again.
  if (kept !== undefined) await writeFile(list, '')
  await bench.pause(UNTIL_LISTED_MS)
  try {
    return await wakeOnce(bench, snapshot)
  } finally {
    if (kept !== undefined) await writeFile(list, kept)
  }
}

async function readFromDisk(bench, { id }) {
  const { dir } = bench.layout.snapshot(id)
  await bench.pause(UNTIL_LISTED_MS)
  await dropFromCache(dir)
  return Number(
    execFileSync('python3', ['-c', READ, await largestFile(join(await findCurrent(dir), 'memory'))]),
  )
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
  const TITLES = {
    warm: 'warm',
    cold: 'cold',
    unlisted: 'cold, without the list',
    foldedWarm: 'folded pages, warm',
    foldedCold: 'folded pages, cold',
  }
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
    `Reading the memory file from start to end, cold: ${pair(read)} ms. First result cold / warm: ${ratios.answer.toFixed(2)} (${verdict(ratios.answer, GOALS.answer)}), with folded pages ${ratios.foldedAnswer.toFixed(2)} (${verdict(ratios.foldedAnswer, GOALS.answer)}). First sum / reading: ${ratios.sum.toFixed(2)} (${verdict(ratios.sum, GOALS.sum)}).`,
  ].join('\n')
}
