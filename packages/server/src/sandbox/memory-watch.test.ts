import type { Burrow, BurrowUsage } from '@dormouse/engine'
import { expect, test } from 'vitest'
import { MemoryWatch } from './memory-watch.ts'
import type { Sandbox } from './sandbox.ts'

const MIB = 1024 ** 2
const LIMIT_BYTES = 256 * MIB

/** What the watch reads of a sandbox and its burrow. `entries` is its ledger. */
async function watched() {
  const entries: string[] = []
  const used = { bytes: 0, oomKills: 0, measured: Promise.resolve() }
  const usage = () => ({ memoryBytes: used.bytes, memoryPeakBytes: LIMIT_BYTES, oomKills: used.oomKills })
  const burrow = {
    ended: new Promise(() => {}),
    limits: { memoryBytes: LIMIT_BYTES },
    usage: async () => usage(),
    anonymousBytes: () => used.measured.then(() => used.bytes),
    waitsForMemory: async () => false,
  }
  const row = { id: 'sb-1', name: 'one', state: 'running', limits: { memoryBytes: LIMIT_BYTES } }
  const sandbox = {
    id: row.id,
    row,
    burrow,
    deps: { clock: { monotonicMs: () => Date.now(), wallMs: () => Date.now() } },
    write: ({ entry }: { entry: { event: string } }) => void entries.push(entry.event),
  }
  const watch = new MemoryWatch(sandbox as unknown as Sandbox)
  await watch.enterBurrow(burrow as unknown as Burrow, { isAdopted: false })
  const observe = () => watch.observe(burrow as unknown as Burrow, usage() as BurrowUsage)
  return { watch, observe, used, row, burrow, entries }
}

test('MemoryWatch shows a kill although a sample from before it finds memory high after it', async () => {
  const { watch, observe, used, entries } = await watched()
  used.bytes = 250 * MIB
  let measure = () => {}
  used.measured = new Promise((resolve) => {
    measure = resolve
  })
  const sampled = observe()
  used.oomKills = 1
  expect(await watch.claimKill('run-1')).toMatch(/memory limit of 256 MiB/)
  measure()
  await sampled
  expect(entries).toEqual(['out_of_memory', 'memory_high'])
  expect(watch.notice).toMatchObject({
    event: 'out_of_memory',
    message: expect.stringMatching(/Linux killed a process/),
  })
})

test('MemoryWatch shows a kill when memory was high before, and again afterwards', async () => {
  const { watch, observe, used, entries } = await watched()
  used.bytes = 250 * MIB
  await observe()
  expect(watch.notice?.event).toBe('memory_high')
  used.oomKills = 1
  used.bytes = 10 * MIB
  await observe()
  used.bytes = 250 * MIB
  await observe()
  expect(watch.notice?.event).toBe('out_of_memory')
  expect(entries).toEqual(['memory_high', 'out_of_memory', 'memory_high'])
})

test('MemoryWatch shows that memory is high under a raised limit, and the kill under the old one no more', async () => {
  const { watch, observe, used, row, burrow } = await watched()
  used.oomKills = 1
  await observe()
  expect(watch.notice?.event).toBe('out_of_memory')
  row.limits.memoryBytes = 512 * MIB
  burrow.limits.memoryBytes = 512 * MIB
  expect(watch.notice).toBeUndefined()
  used.bytes = 500 * MIB
  await observe()
  expect(watch.notice?.event).toBe('memory_high')
})
