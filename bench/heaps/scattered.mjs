import { newSandboxId } from '@dormouse/contracts'
import { median, megabytes, ms, summarize, table, verdict } from '../measure.mjs'
import { takeStockSnapshot } from '../sleep/stock.mjs'
import { growTree } from '../sleep/tree.mjs'
import { python, timed } from '../workbench.mjs'
import { measureFiles } from './measure-files.mjs'

const GIB = 1024 ** 3
const GOALS = { ratio: { atMost: 1.3 }, copied: { atMost: 8 }, disk: { atMost: 1.2 } }
const KINDS = ['tidy', 'untouched', 'touched', 'stockTidy', 'stockTouched']

/** A second list with the same objects changes the count of references of each, and so every page of the heap. */
const TOUCH = 'kept = [each for each in heap]'

/**
 * Saves a frame (tidy), a list of small `bytes` objects before and after every page of it has changed, and both heaps
 * as stock CRIU saves them.
 */
export async function saveHeaps(bench, heapMB) {
  const frame = await growTree(bench.engine, heapMB * 1e6)
  await python(frame, 'check = lambda: df.iat[-1, -1] == last')
  const stockTidy = await takeStockSnapshot(bench, frame)
  const tidy = await resave(bench, stockTidy)
  const list = await bench.engine.createBurrow({
    sandboxId: newSandboxId(),
    template: 'python',
    limits: { memoryBytes: 6 * GIB, cpus: 2 },
  })
  // An object of 33 + 87 bytes and its pointer.
  const count = Math.round((heapMB * 1e6) / 136)
  await python(
    list,
    `heap = [b"%087d" % n for n in range(${count})]\ncheck = lambda: heap[-1] == b"%087d" % ${count - 1}`,
  )
  const { snapshot: untouched } = await bench.engine.snapshot(list, { leave: 'gone' })
  const awake = await bench.engine.restore(untouched.id, { sandboxId: untouched.sandboxId })
  await python(awake, TOUCH)
  const residentBytes = Number(
    await python(
      awake,
      'print(sum(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmRSS")))',
    ),
  )
  const { ms: sleepMs, result: slept } = await timed(() => bench.engine.snapshot(awake, { leave: 'gone' }))
  const touched = slept.snapshot
  const again = await bench.engine.restore(touched.id, { sandboxId: touched.sandboxId })
  // Once more, so that stock CRIU finds no page as it is in our memory file.
  await python(again, TOUCH.replace('kept', 'again'))
  const stockTouched = await takeStockSnapshot(bench, again)
  return { snapshots: { tidy, untouched, touched, stockTidy, stockTouched }, residentBytes, sleepMs }
}

async function resave(bench, { id, sandboxId }) {
  const burrow = await bench.engine.restore(id, { sandboxId })
  return (await bench.engine.snapshot(burrow, { leave: 'gone' })).snapshot
}

/** All kinds in turns, so that a slow minute affects all of them. Deletes the snapshots. */
export async function measureScattered(bench, { snapshots, residentBytes, sleepMs }, { heapMB, rounds }) {
  const samples = Object.fromEntries(KINDS.map((kind) => [kind, { call: [], answer: [] }]))
  for (let round = -1; round < rounds; round++) {
    for (const kind of KINDS) {
      await bench.pause()
      const { id, sandboxId } = snapshots[kind]
      const start = performance.now()
      const burrow = await bench.engine.restore(id, { sandboxId })
      const callMs = performance.now() - start
      if ((await python(burrow, 'print(check())')) !== 'True') throw new Error('The heap is not the same.')
      // The first restore of a snapshot reads it.
      if (round >= 0) samples[kind].call.push(callMs)
      if (round >= 0) samples[kind].answer.push(performance.now() - start)
      await burrow.destroy()
    }
  }
  const { touched, ...others } = snapshots
  for (const { id } of Object.values(others)) await bench.engine.deleteSnapshot(id)
  await bench.engine.upkeep()
  const { copiedBytes, diskBytes } = await measureFiles(bench.layout.snapshot(touched.id).dir)
  await bench.engine.deleteSnapshot(touched.id)
  const kinds = Object.fromEntries(
    KINDS.map((kind) => [
      kind,
      { call: summarize(samples[kind].call), answer: summarize(samples[kind].answer) },
    ]),
  )
  const ratio = median(samples.touched.answer) / median(samples.untouched.answer)
  return { heapMB, kinds, ratio, copiedBytes, diskBytes, residentBytes, sleepMs }
}

export function describeScattered(sizes) {
  const pair = ({ p50, p99 }) => `${ms(p50)} / ${ms(p99)}`
  const rows = sizes.map(({ heapMB, kinds, ratio, copiedBytes, diskBytes, residentBytes, sleepMs }) => [
    `${heapMB} MB`,
    pair(kinds.untouched.answer),
    pair(kinds.touched.answer),
    `${ratio.toFixed(2)} (${verdict(ratio, GOALS.ratio)})`,
    `${megabytes(copiedBytes)} MB (${verdict(copiedBytes / 1e6, GOALS.copied, 'MB')})`,
    `${(diskBytes / residentBytes).toFixed(2)} (${verdict(diskBytes / residentBytes, GOALS.disk)})`,
    ms(sleepMs),
    pair(kinds.stockTouched.answer),
    pair(kinds.tidy.answer),
    pair(kinds.stockTidy.answer),
  ])
  return [
    `Stored → first result of a list of small \`bytes\` objects before and after a second list has taken all of them, which changes every page; p50 / p99 in ms, ${sizes[0].kinds.tidy.call.times} times each, in turns with stock CRIU and with a frame of the same size (tidy). Disk is what the touched snapshot takes alone, after the untouched one is deleted:`,
    '',
    table(
      [
        'heap',
        'untouched',
        'touched',
        'touched / untouched',
        'copied at each wake',
        'disk / resident',
        'the sleep, ms',
        'stock, touched',
        'tidy',
        'stock, tidy',
      ],
      rows,
    ),
  ].join('\n')
}
