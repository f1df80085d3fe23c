import { chmod, copyFile, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const MB = 1024 ** 2
/** What the issue promises: no wake copies more, whatever was touched. */
const COPIED_MAX_BYTES = 8e6
const DISK_RATIO = 1.2

const factory = await linuxFactory()
let engine: LinuxEngine
beforeAll(async () => {
  engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

async function run(burrow: Burrow, code: string): Promise<string> {
  const { error, stdout } = await burrow.guest.runs.run({ code, timeoutMs: 100_000 })
  expect(error?.traceback).toBeUndefined()
  return stdout.trim()
}

/** What a wake copies, and the disk space that only this snapshot takes. */
async function measure(id: SnapshotId) {
  const dir = factory.layout.snapshot(id).dir
  const manifest = JSON.parse(await readFile(join(dir, 'manifest.json'), 'utf8')) as { generation?: number }
  const current = manifest.generation === undefined ? dir : join(dir, `generation-${manifest.generation}`)
  let [copiedBytes, diskBytes] = [0, 0]
  for (const name of [...(await readdir(current, { recursive: true }))]) {
    const { size, blocks, nlink } = await stat(join(current, name))
    if (name.startsWith('images/pages-')) copiedBytes += size
    // The template's memory file has more links.
    if (nlink === 1) diskBytes += blocks * 512
  }
  return { copiedBytes, diskBytes }
}

/** Sleeps with nothing left but the snapshot, as a stored sandbox does. */
async function sleep(burrow: Burrow) {
  const former = await engine.listSnapshots()
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  for (const { id } of former) await engine.deleteSnapshot(id)
  return snapshot.id
}
const wake = (id: SnapshotId, sandboxId: Burrow['sandboxId']) =>
  engine.restore(id, { sandboxId, reseed: false })

const RESIDENT = `
import os
print(sum(int(line.split()[1]) << 10 for pid in os.listdir("/proc") if pid.isdigit()
    for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")))
`

/** The templates have no Node, so the tests lend the sandbox their own. */
async function lendNode(burrow: Burrow): Promise<void> {
  const [pid] = await (burrow as unknown as { pids(): Promise<number[]> }).pids()
  const path = `/proc/${pid}/root/opt/node`
  await copyFile(process.execPath, path)
  await chmod(path, 0o755)
}

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

/** `build` makes the heap, `touch` changes pages all over it, `check` prints what must stay the same. */
interface Heap {
  readonly name: string
  readonly build: string
  readonly touch: string
  readonly check: string
  readonly prepare?: (burrow: Burrow) => Promise<void>
}

const HEAPS: readonly Heap[] = [
  {
    name: 'a reference-count storm over a list of 600,000 bytes objects',
    build: 'heap = [b"%0100d" % n for n in range(600_000)]',
    touch: 'other = list(heap)',
    check: 'print(len(heap), hash(tuple(heap[::7])), b"".join(heap[::100]).count(b"7"))',
  },
  {
    name: 'garbage collection of small containers',
    build: `
import gc
class Node: __slots__ = ("name", "children")
def grow(n):
    node = Node(); node.name = f"n{n}"; node.children = [[n, n + 1], {"n": n}]; return node
heap = [grow(n) for n in range(150_000)]; gc.freeze(); gc.unfreeze()`,
    touch: 'gc.collect(); heap[::5] = [grow(n) for n in range(0, 150_000, 5)]; gc.collect()',
    check: 'print(len(heap), sum(node.children[1]["n"] for node in heap), heap[777].name)',
  },
  {
    name: 'a dict of a million entries',
    build: 'heap = {n: n * 1.5 for n in range(1_000_000)}',
    touch: 'for n in range(0, 1_000_000, 17): heap[n] = n * 1.5\nother = [v for v in heap.values()]',
    check: 'print(len(heap), sum(heap.values()), heap[123_456])',
  },
  {
    name: 'trees of parsed JSON',
    build: `
import json
text = json.dumps([{"id": n, "name": f"user {n}", "tags": ["a", str(n)], "at": {"x": n / 7, "y": None}} for n in range(120_000)])
heap = json.loads(text); del text`,
    touch: 'for each in heap: each["id"] += 0; each["seen"] = each["tags"][1]',
    check: 'print(len(heap), sum(each["id"] for each in heap), heap[4711]["at"]["x"], heap[4711]["tags"])',
  },
  {
    name: 'one pass over a frame of strings, which keeps their hashes',
    build: `
import pandas as pd
heap = pd.DataFrame({c: pd.Series([f"{c}{n:0109d}" for n in range(75_000)], dtype=object) for c in "abcd"})`,
    touch: 'for c in heap:\n    for value in heap[c]: hash(value)',
    check:
      'print(heap.shape, sum(map(len, heap["a"])), heap.iat[12_345, 2], "".join(heap["d"][::100]).count("7"))',
  },
  {
    name: 'single pages all over a large array',
    build: 'import numpy as np\nheap = np.arange(40_000_000, dtype=np.int64)',
    touch: 'heap[::512 * 23] *= 1; heap[5 << 20:6 << 20] += 0',
    check: 'print(int(heap.sum()), int(heap[12_345_678]), heap.nbytes)',
  },
  {
    name: 'the heap of a Node process, with garbage collection',
    prepare: lendNode,
    build: `
import subprocess
node = subprocess.Popen(["/opt/node", "--expose-gc", "-e", ${JSON.stringify(NODE)}], stdin=-1, stdout=-1, text=True)
def ask(what):
    node.stdin.write(what + chr(10)); node.stdin.flush(); return node.stdout.readline().strip()
assert ask("build") == "done"`,
    touch: 'assert ask("touch") == "done"',
    check: 'print(ask("check"))',
  },
]

describe('a heap that was touched all over', () => {
  test.each(HEAPS)(
    '$name: little to copy, disk of about its size, the same after sleep, wake and fork',
    async ({ build, touch, check, prepare }) => {
      const born = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
      await prepare?.(born)
      await run(born, build)
      const whole = await run(born, check)
      let burrow = await wake(await sleep(born), born.sandboxId)
      for (let round = 1; round <= 2; round++) {
        await run(burrow, touch)
        await run(burrow, check)
        const residentBytes = Number(await run(burrow, RESIDENT))
        const id = await sleep(burrow)
        expect((await measure(id)).copiedBytes).toBeLessThanOrEqual(COPIED_MAX_BYTES)
        await engine.upkeep()
        const { copiedBytes, diskBytes } = await measure(id)
        expect(copiedBytes).toBeLessThanOrEqual(COPIED_MAX_BYTES)
        expect(diskBytes / residentBytes).toBeLessThanOrEqual(DISK_RATIO)
        burrow = await wake(id, burrow.sandboxId)
        expect(await run(burrow, check)).toBe(whole)
      }
      const { parent, children } = await engine.fork(burrow, { sandboxIds: [newSandboxId()] })
      for (const each of [parent!, ...children]) {
        expect(await run(each, check)).toBe(whole)
        await each.destroy()
      }
      for (const { id } of await engine.listSnapshots()) await engine.deleteSnapshot(id)
    },
    600_000,
  )

  test('a pass that only counts references up and down: nothing is copied or written anew', async () => {
    const born = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await run(born, 'heap = [b"%0100d" % n for n in range(200_000)]')
    const burrow = await wake(await sleep(born), born.sandboxId)
    await run(burrow, 'others = list(heap); others.clear()')
    const id = await sleep(burrow)
    const { images, memory } = factory.layout.snapshot(id)
    const own = (await readdir(memory))
      .filter((name) => name.startsWith(id))
      .map((name) => join(memory, name))
    const pages = (await readdir(images)).filter((name) => name.startsWith('pages-'))
    const stats = await Promise.all(
      [...own, ...pages.map((name) => join(images, name))].map((path) => stat(path)),
    )
    // The heap has 27 MB.
    expect(stats.reduce((sum, { blocks }) => sum + blocks * 512, 0)).toBeLessThan(8 * MB)
    const again = await wake(id, burrow.sandboxId)
    expect(await run(again, 'print(len(heap), heap[123_456])')).toContain('123456')
    await again.destroy()
  }, 120_000)
})
