import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

/** For longer runs by hand. The seed decides on every step, so a failure can be repeated. */
const CYCLES = Number(process.env['DORMOUSE_SOAK_CYCLES'] ?? 8)
const SEED = Number(process.env['DORMOUSE_SOAK_SEED'] ?? 1)

const factory = await linuxFactory()
let engine: Engine
const burrows: Burrow[] = []
beforeAll(async () => {
  engine = await factory.open()
})
afterAll(async () => {
  await Promise.allSettled(burrows.map((burrow) => burrow.destroy()))
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

async function run(burrow: Burrow, code: string): Promise<string> {
  const { error, stdout } = await burrow.guest.runs.run({ code, timeoutMs: 50_000 })
  expect(error?.traceback).toBeUndefined()
  return stdout.trim()
}

/** Puts it to sleep and wakes it, in each of the ways there are in turn. Snapshots that are not needed go, memory files with them. */
async function sleepAndWake(burrow: Burrow, cycle: number): Promise<Burrow> {
  const before = await engine.listSnapshots()
  let next: Burrow
  if (cycle % 3 === 2) {
    const { parent, children } = await engine.fork(burrow, { sandboxIds: [newSandboxId()], reseed: false })
    burrows.push(parent)
    await parent.destroy()
    next = children[0]!
  } else if (cycle % 3 === 1) {
    next = (await engine.snapshot(burrow, { leave: 'running' })).burrow!
  } else {
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    next = await engine.restore(snapshot.id, { sandboxId: newSandboxId(), reseed: false })
  }
  burrows.push(next)
  for (const { id } of before) await engine.deleteSnapshot(id)
  return next
}

const ALLOCATIONS = `
import gc, hashlib, random
import numpy as np, pandas as pd
random.seed(${SEED})
held, steps = [], 0

def content(thing):
    if isinstance(thing, pd.DataFrame): return thing.to_numpy().tobytes()
    return thing.tobytes() if isinstance(thing, np.ndarray) else bytes(thing)

def seal(thing): return hashlib.blake2b(content(thing)).digest()

def size():
    # Of every order: from what lies in the arenas to what has a mapping of its own.
    return int(2 ** random.uniform(4, 23.5))

def allocate():
    n, kind = size(), random.choice(["bytes", "bytearray", "zeros", "array", "frame", "list"])
    if kind == "bytes": thing = random.randbytes(n)
    elif kind == "bytearray": thing = bytearray(random.randbytes(n))
    elif kind == "zeros":
        thing = np.zeros(n // 8 + 1)
        assert not thing.any(), "calloc gave memory that was not zero"
        thing[:: 512] = 1.5
    elif kind == "array": thing = np.frombuffer(random.randbytes(n // 8 * 8 + 8), dtype=np.int64).copy()
    elif kind == "frame":
        thing = pd.DataFrame({"a": np.arange(n // 16 + 1), "b": np.arange(n // 16 + 1) * 2})
    else: thing = bytearray(b"".join(random.randbytes(100) for _ in range(n // 10_000 + 1)))
    held.append([thing, seal(thing)])

def free():
    if held: held.pop(random.randrange(len(held)))
    if random.random() < 0.2: gc.collect()

def grow():
    entry = random.choice(held)
    thing = entry[0]
    check(entry)
    if isinstance(thing, bytearray):
        before = bytes(thing)
        thing.extend(bytes(size()))
        assert thing[: len(before)] == before and not any(thing[len(before) :]), "a bytearray changed as it grew"
    elif isinstance(thing, np.ndarray):
        before, more = thing.copy(), size() // 8
        thing.resize(len(before) + more, refcheck=False)
        assert (thing[: len(before)].view(np.int64) == before.view(np.int64)).all(), "an array changed as it grew"
        assert not thing[len(before) :].any(), "an array did not grow by zeros"
    elif isinstance(thing, pd.DataFrame):
        entry[0] = pd.concat([thing, thing.tail(100)], ignore_index=True)
    entry[1] = seal(entry[0])

def shrink():
    entry = random.choice(held)
    if isinstance(entry[0], bytearray): del entry[0][len(entry[0]) // 2 :]
    elif isinstance(entry[0], np.ndarray): entry[0].resize(len(entry[0]) // 2 + 1, refcheck=False)
    entry[1] = seal(entry[0])

def change():
    entry = random.choice(held)
    thing = entry[0]
    if isinstance(thing, bytearray) and thing: thing[random.randrange(len(thing))] ^= 255
    elif isinstance(thing, np.ndarray): thing[random.randrange(len(thing)) :: 1000] += 1
    elif isinstance(thing, pd.DataFrame): thing.loc[:, "b"] += 1
    entry[1] = seal(thing)

def check(entry): assert seal(entry[0]) == entry[1], f"{type(entry[0])} of {len(entry[0])} changed by itself"

def work(count):
    global steps
    for _ in range(count):
        steps += 1
        if len(held) < 5: allocate()
        else: random.choice([allocate, allocate, free, grow, shrink, change])()
        while sum(len(content(thing)) for thing, _ in held) > 150 << 20: free()
    for entry in held: check(entry)
`

describe('memory over many sleeps', () => {
  test(
    `holds what was written, through ${CYCLES} cycles of allocate, free, grow, sleep (seed ${SEED})`,
    async () => {
      let burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
      burrows.push(burrow)
      await run(burrow, ALLOCATIONS)
      for (let cycle = 0; cycle < CYCLES; cycle++) {
        await run(burrow, 'work(40)')
        burrow = await sleepAndWake(burrow, cycle)
        expect(await run(burrow, 'for entry in held: check(entry)\nprint(steps)')).toBe(
          String(40 * (cycle + 1)),
        )
      }
      await run(burrow, 'work(40)')
      await burrow.destroy()
    },
    60_000 + CYCLES * 20_000,
  )

  test('a large array that grows after a sleep keeps its bytes and grows by zeros, again and again', async () => {
    let burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    burrows.push(burrow)
    const start = `
import numpy as np
array = np.arange(4_000_000); data = bytearray(np.arange(4_000_000).tobytes()); n = 4_000_000
def grow():
    global n
    array.resize(n + 1_500_000, refcheck=False); data.extend(bytes(12_000_000))
    for each in (array, np.frombuffer(data, dtype=np.int64)):
        assert (each[:n] == np.arange(n)).all() and not each[n:].any()
        del each
    array[n:] = np.arange(n, n + 1_500_000)
    data[n * 8 :] = array[n:].tobytes()
    n += 1_500_000`
    await run(burrow, start)
    for (let cycle = 0; cycle < 4; cycle++) {
      burrow = await sleepAndWake(burrow, cycle)
      await run(burrow, 'grow()')
    }
    expect(await run(burrow, 'print(n, array[-1])')).toBe('10000000 9999999')
  })

  test('memory given back after a sleep comes again as zeros', async () => {
    const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    await run(burrow, 'import numpy as np; blocks = [np.full(500_000, 7.0) for _ in range(20)]')
    const woken = await sleepAndWake(burrow, 0)
    await run(
      woken,
      'for _ in range(5):\n  blocks = None\n  blocks = [np.zeros(400_000 + 10_000 * i) for i in range(20)]\n  assert not any(block.any() for block in blocks)\n  for block in blocks: block += 9',
    )
  })
})
