import { readFile } from 'node:fs/promises'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

/**
 * Each way of sleeping twice; more for longer runs by hand. The seed decides on every step, so a failure can be
 * repeated.
 */
const CYCLES = Number(process.env['DORMOUSE_SOAK_CYCLES'] ?? 6)
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

/**
 * Puts it to sleep and wakes it, in each of the ways there are in turn. Snapshots that are not needed go, memory
 * files with them.
 */
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

const PROGRAM = await readFile(new URL('soak.py', import.meta.url), 'utf8')

describe('memory over many sleeps', () => {
  test(
    `holds what was written, through ${CYCLES} cycles of allocate, free, grow, sleep (seed ${SEED})`,
    async () => {
      let burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
      burrows.push(burrow)
      await run(burrow, `seed = ${SEED}\n${PROGRAM}`)
      for (let cycle = 0; cycle < CYCLES; cycle++) {
        await run(burrow, 'work(40)')
        burrow = await sleepAndWake(burrow, cycle)
        expect(await run(burrow, 'check_all()\nprint(main.steps)')).toBe(String(40 * (cycle + 1)))
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
