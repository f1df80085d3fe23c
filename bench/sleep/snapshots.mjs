import { median, megabytes, summarize, table, timesTable } from '../measure.mjs'
import { timed } from '../workbench.mjs'
import { copyToFile } from './control.mjs'
import { blockBytes } from './disk.mjs'
import { changeBytes, growTree } from './tree.mjs'

const CHANGED_BYTES = 10e6

/** Times snapshots until they are on disk and their burrow is gone. */
export async function measureSnapshots(bench, base, { heapBytes, firstTimes, times }) {
  const first = new Samples(bench)
  const prepared = new Samples(bench)
  const control = []
  for (let i = 0; i < firstTimes; i++) {
    const burrow = await growTree(bench.engine, heapBytes)
    await bench.pause(2000)
    await first.take(burrow)
    await bench.pause(2000)
    control.push(copyToFile(bench.layout.snapshotsDir, heapBytes))
    const other = await growTree(bench.engine, heapBytes)
    await bench.engine.prepareSnapshot(other)
    await bench.pause(2000)
    await prepared.take(other)
  }
  const changed = new Samples(bench)
  const unchanged = new Samples(bench)
  for (let i = 0; i < times; i++) {
    for (const [samples, bytes] of [
      [changed, CHANGED_BYTES],
      [unchanged, 0],
    ]) {
      await bench.pause()
      const burrow = await bench.engine.restore(base.id, { sandboxId: base.sandboxId })
      if (bytes > 0) await changeBytes(burrow, bytes)
      await samples.take(burrow)
    }
  }
  return {
    first: { ...first.summary(), goal: { atMost: Math.round(1.5 * median(control)) } },
    prepared: prepared.summary(),
    control: summarize(control),
    changed: { ...changed.summary(), goal: { atMost: 100 } },
    unchanged: unchanged.summary(),
  }
}

class Samples {
  #bench
  #ms = []
  #imageBytes = []
  #memoryBytes = []
  #diskBytes = []

  constructor(bench) {
    this.#bench = bench
  }

  async take(burrow) {
    const { engine, layout } = this.#bench
    const disk = () => blockBytes(layout.snapshotsDir, layout.layersDir)
    const before = await disk()
    const { ms, result } = await timed(() => engine.snapshot(burrow, { leave: 'gone' }))
    const { id, bytes } = result.snapshot
    this.#ms.push(ms)
    this.#imageBytes.push(bytes.images)
    this.#memoryBytes.push(bytes.memory)
    this.#diskBytes.push((await disk()) - before)
    await engine.deleteSnapshot(id)
  }

  summary() {
    return {
      ...summarize(this.#ms),
      imageBytes: median(this.#imageBytes),
      memoryBytes: median(this.#memoryBytes),
      addedBytes: median(this.#diskBytes),
    }
  }
}

export function describeSnapshots({ first, prepared, control, changed, unchanged }) {
  const kinds = [
    { title: 'first snapshot of 1 GB', ...first },
    { title: 'first snapshot of 1 GB that was prepared while awake', ...prepared },
    { title: 'snapshot after changing 10 MB of 1 GB', ...changed },
    { title: 'snapshot after changing nothing of 1 GB', ...unchanged },
  ]
  const rows = kinds.map(({ title, imageBytes, memoryBytes, addedBytes }) => [
    title,
    megabytes(addedBytes),
    megabytes(imageBytes),
    megabytes(memoryBytes),
  ])
  return [
    timesTable([
      ...kinds,
      { title: 'control: copying 1 GB once to a new file in the page cache', ...control },
    ]),
    '',
    'The goal of the first snapshot is 1.5 × the control. It also waits for the disk; the control does not.',
    '',
    'Size of those snapshots, in MB (medians):',
    '',
    table(
      ['snapshot', 'added on disk, in blocks', 'images, as reported', 'memory files, including shared ones'],
      rows,
    ),
  ].join('\n')
}
