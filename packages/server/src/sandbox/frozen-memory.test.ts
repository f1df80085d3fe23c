import { expect, test } from 'vitest'
import { FrozenMemory } from './frozen-memory.ts'
import type { Sandbox } from './sandbox.ts'

const MIB = 1024 ** 2

/** What the budget reads of a sandbox, with a burrow that has this much memory of its own. */
function frozen(name: string, privateBytes: number, lastActiveAt: number) {
  const measured: number[] = []
  const burrow = {
    memory: async () => {
      measured.push(privateBytes)
      return { privateBytes, sharedBytes: 1000 * MIB, proportionalBytes: privateBytes }
    },
  }
  const row = { tier: 'frozen', stateSince: 1, lastActiveAt }
  return { name, row, burrow, measured, sandbox: { name, row, burrow } as unknown as Sandbox }
}

async function excess(budget: FrozenMemory, sandboxes: ReturnType<typeof frozen>[], missingBytes = 0) {
  const all = sandboxes.map(({ sandbox }) => sandbox)
  budget.excess(all, missingBytes)
  // The measurements end before the next round.
  await new Promise(setImmediate)
  return budget.excess(all, missingBytes).map((sandbox) => (sandbox as unknown as { name: string }).name)
}

test('stores nothing while all fit, and the least recently used ones beyond the budget', async () => {
  const old = frozen('old', 40 * MIB, 100)
  const older = frozen('older', 40 * MIB, 50)
  const recent = frozen('recent', 40 * MIB, 200)
  const all = [old, older, recent]
  expect(await excess(new FrozenMemory(120 * MIB), all)).toEqual([])
  expect(await excess(new FrozenMemory(119 * MIB), all)).toEqual(['older'])
  expect(await excess(new FrozenMemory(79 * MIB), all)).toEqual(['older', 'old'])
  expect(await excess(new FrozenMemory(0), all)).toEqual(['older', 'old', 'recent'])
})

test('gives back what the host is missing', async () => {
  const all = [frozen('old', 40 * MIB, 100), frozen('recent', 40 * MIB, 200)]
  expect(await excess(new FrozenMemory(1000 * MIB), all, 10 * MIB)).toEqual(['old'])
  expect(await excess(new FrozenMemory(1000 * MIB), all, 50 * MIB)).toEqual(['old', 'recent'])
})

test('measures a sandbox once per freeze, and ignores those that are awake or on disk', async () => {
  const one = frozen('one', 40 * MIB, 100)
  const budget = new FrozenMemory(0)
  expect(await excess(budget, [one])).toEqual(['one'])
  expect(await excess(budget, [one])).toEqual(['one'])
  expect(one.measured).toHaveLength(1)
  one.row.stateSince = 2
  await excess(budget, [one])
  expect(one.measured).toHaveLength(2)
  one.row.tier = 'stored'
  expect(await excess(budget, [one])).toEqual([])
})
