import { chmod, copyFile } from 'node:fs/promises'
import { newSandboxId } from '@dormouse/contracts'
import { median, megabytes, ms, summarize, table, verdict } from '../measure.mjs'
import { takeStockSnapshot } from '../sleep/stock.mjs'
import { python, timed } from '../workbench.mjs'
import { measureFiles } from './measure-files.mjs'

const GIB = 1024 ** 3
const GOALS = { ratio: { atMost: 1.3 }, copied: { atMost: 8 }, disk: { atMost: 1.2 } }
const RESIDENT = `
import os
print(sum(int(line.split()[1]) << 10 for pid in os.listdir("/proc") if pid.isdigit()
    for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")))`

const NODE = `
const heap = []
const grow = (n) => ({ id: n, name: "user " + n, tags: [n, String(n)], at: { x: n / 7 } })
const work = {
  build() { for (let n = 0; n < 300_000; n++) heap.push(grow(n)) },
  touch() { for (let n = 0; n < heap.length; n += 3) { heap[n].id += 0.5; heap[n].id -= 0.5; heap[n].tags[1] = String(n) } gc() },
  check() { return heap.length + " " + heap.reduce((sum, each) => sum + each.id + each.at.x, 0) + heap[777].tags },
}
require("readline").createInterface({ input: process.stdin }).on("line", (line) => console.log(work[line]() ?? "done"))
`

/** The heaps of tests/snapshot/any-heap.test.ts. `check` is an expression that reads little of the heap. */
const HEAPS = [
  {
    name: '600,000 `bytes` objects; all copied into a second list',
    build: 'heap = [b"%0100d" % n for n in range(600_000)]',
    touch: 'other = list(heap)',
    check: 'heap[123_456]',
  },
  {
    name: '150,000 small containers; garbage collections, a fifth replaced',
    build: `
import gc
class Node: __slots__ = ("name", "children")
def grow(n):
    node = Node(); node.name = f"n{n}"; node.children = [[n, n + 1], {"n": n}]; return node
heap = [grow(n) for n in range(150_000)]; gc.freeze(); gc.unfreeze()`,
    touch: 'gc.collect(); heap[::5] = [grow(n) for n in range(0, 150_000, 5)]; gc.collect()',
    check: 'heap[777].name',
  },
  {
    name: 'a dict of a million entries; every 17th set again, all read',
    build: 'heap = {n: n * 1.5 for n in range(1_000_000)}',
    touch: 'for n in range(0, 1_000_000, 17): heap[n] = n * 1.5\nother = [v for v in heap.values()]',
    check: 'heap[123_456]',
  },
  {
    name: 'JSON trees of 120,000 records; every record changed',
    build: `
import json
text = json.dumps([{"id": n, "name": f"user {n}", "tags": ["a", str(n)], "at": {"x": n / 7, "y": None}} for n in range(120_000)])
heap = json.loads(text); del text`,
    touch: 'for each in heap: each["id"] += 0; each["seen"] = each["tags"][1]',
    check: 'heap[4711]["tags"]',
  },
  {
    name: 'a frame of 1,200,000 strings, 200 MB; one pass over it, which keeps their hashes',
    build: `
import pandas as pd
heap = pd.DataFrame({c: pd.Series([f"{c}{n:0109d}" for n in range(300_000)], dtype=object) for c in "abcd"})`,
    touch: 'for c in heap:\n    for value in heap[c]: hash(value)',
    check: 'heap.iat[123_456, 2]',
  },
  {
    name: 'the heap of a Node process; a third changed, garbage collected',
    prepare: lendNode,
    build: `
import subprocess
node = subprocess.Popen(["/opt/node", "--expose-gc", "-e", ${JSON.stringify(NODE)}], stdin=-1, stdout=-1, text=True)
def ask(what):
    node.stdin.write(what + chr(10)); node.stdin.flush(); return node.stdout.readline().strip()
assert ask("build") == "done"`,
    touch: 'assert ask("touch") == "done"',
    check: 'ask("check")',
  },
]

/** The template has no Node, so the sandbox gets the one that runs the benchmark. */
async function lendNode(burrow) {
  const [pid] = await burrow.pids()
  const path = `/proc/${pid}/root/opt/node`
  await copyFile(process.execPath, path)
  await chmod(path, 0o755)
}

/** Wakes every heap as it was saved first, after it had been touched, and that as stock CRIU saves it, in turns. */
export async function measureKinds(bench, { rounds }) {
  const kinds = []
  for (const heap of HEAPS) kinds.push(await measureKind(bench, heap, rounds))
  return kinds
}

async function measureKind(bench, heap, rounds) {
  const { name, touch, check } = heap
  console.error(`… ${name}`)
  // A sandbox of its own: stock CRIU would leave pages out that are as in our memory file.
  const unsaved = await grow(bench, heap)
  await python(unsaved, touch)
  await python(unsaved, `print(${check})`)
  const stock = await takeStockSnapshot(bench, unsaved)
  const born = await grow(bench, heap)
  const expected = await python(born, `print(${check})`)
  const { snapshot: untouched } = await bench.engine.snapshot(born, { leave: 'gone' })
  const awake = await bench.engine.restore(untouched.id, { sandboxId: untouched.sandboxId })
  await python(awake, touch)
  // The first look at changed objects is slow in a process that never slept too: V8 converts them then.
  await python(awake, `print(${check})`)
  const residentBytes = Number(await python(awake, RESIDENT))
  const { ms: sleepMs, result: slept } = await timed(() => bench.engine.snapshot(awake, { leave: 'gone' }))
  const saved = { untouched, touched: slept.snapshot, stock }
  const samples = { untouched: [], touched: [], stock: [] }
  for (let round = -1; round < rounds; round++) {
    for (const [kind, { id, sandboxId }] of Object.entries(saved)) {
      await bench.pause()
      const start = performance.now()
      const burrow = await bench.engine.restore(id, { sandboxId })
      if ((await python(burrow, `print(${check})`)) !== expected) throw new Error(`${name} has changed`)
      // The first restore of a snapshot reads it.
      if (round >= 0) samples[kind].push(performance.now() - start)
      await burrow.destroy()
    }
  }
  for (const { id } of [untouched, stock]) await bench.engine.deleteSnapshot(id)
  await bench.engine.upkeep()
  const { copiedBytes, diskBytes } = await measureFiles(bench.layout.snapshot(slept.snapshot.id).dir)
  await bench.engine.deleteSnapshot(slept.snapshot.id)
  return {
    ...{ name, residentBytes, copiedBytes, diskBytes, sleepMs },
    untouched: summarize(samples.untouched),
    touched: summarize(samples.touched),
    stock: summarize(samples.stock),
    ratio: median(samples.touched) / median(samples.untouched),
  }
}

async function grow({ engine }, { prepare, build }) {
  const limits = { memoryBytes: 4 * GIB, cpus: 2 }
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', limits })
  await prepare?.(burrow)
  await python(burrow, build)
  return burrow
}

export function describeKinds(kinds) {
  const pair = ({ p50, p99 }) => `${ms(p50)} / ${ms(p99)}`
  const rows = kinds.map((kind) => [
    kind.name,
    megabytes(kind.residentBytes),
    pair(kind.untouched),
    pair(kind.touched),
    pair(kind.stock),
    `${kind.ratio.toFixed(2)} (${verdict(kind.ratio, GOALS.ratio)})`,
    `${megabytes(kind.copiedBytes)} (${verdict(kind.copiedBytes / 1e6, GOALS.copied)})`,
    `${(kind.diskBytes / kind.residentBytes).toFixed(2)} (${verdict(kind.diskBytes / kind.residentBytes, GOALS.disk)})`,
    ms(kind.sleepMs),
  ])
  return [
    `Stored → first result, p50 / p99 in ms, ${kinds[0].touched.times} times each, in turns with the touched heap as stock CRIU saves it. Ratio is touched / untouched. Disk is what the touched snapshot alone takes after upkeep:`,
    '',
    table(
      [
        'heap; how it was touched',
        'resident MB',
        'untouched',
        'touched',
        'stock, touched',
        'ratio',
        'copied MB',
        'disk / resident',
        'the sleep, ms',
      ],
      rows,
    ),
  ].join('\n')
}
