import type { Burrow } from '@dormouse/engine'
import { beforeEach, expect, it } from 'vitest'
import { MemorySampler } from './memory-sampler.ts'

let time = 0
let sampler: MemorySampler
beforeEach(() => {
  time = 1000
  sampler = new MemorySampler({ wallMs: () => 0, monotonicMs: () => time })
})

/** One whose memory takes that long to look at. */
function fakeBurrow(tookMs: number) {
  const state = { looks: 0, end: () => {} }
  const ended = new Promise<void>((resolve) => {
    state.end = resolve
  })
  const memory = async () => {
    state.looks += 1
    await Promise.resolve()
    time += tookMs
    return { privateBytes: state.looks, sharedBytes: 0, proportionalBytes: 0 }
  }
  return { state, burrow: { ended, memory } as unknown as Burrow }
}

it('MemorySampler keeps a look for twenty times as long as it took', async () => {
  const { state, burrow } = fakeBurrow(10)
  await sampler.measure(burrow)
  time += 199
  expect(await sampler.measure(burrow)).toMatchObject({ privateBytes: 1, at: '1970-01-01T00:00:00.000Z' })
  time += 1
  expect(await sampler.measure(burrow)).toMatchObject({ privateBytes: 2 })
  expect(state.looks).toBe(2)
})

it('MemorySampler takes no more of a CPU for many sandboxes, and concurrent callers share a sample', async () => {
  const all = Array.from({ length: 10 }, () => fakeBurrow(10))
  await Promise.all([...all, ...all].map(({ burrow }) => sampler.measure(burrow)))
  expect(all.map(({ state }) => state.looks)).toEqual(Array(10).fill(1))
  time += 1500
  await Promise.all(all.map(({ burrow }) => sampler.measure(burrow)))
  expect(all.map(({ state }) => state.looks)).toEqual(Array(10).fill(1))
  // Those that ended need no time any more.
  for (const { state } of all.slice(1)) state.end()
  await new Promise(setImmediate)
  await sampler.measure(all[0]!.burrow)
  expect(all[0]!.state.looks).toBe(2)
})

it('MemorySampler measures nothing for a burrow that has ended, and continues with the others', async () => {
  const broken = {
    ended: Promise.resolve(),
    memory: () => Promise.reject(new Error('gone')),
  } as unknown as Burrow
  const { burrow } = fakeBurrow(1)
  const [first, second] = await Promise.all([sampler.measure(broken), sampler.measure(burrow)])
  expect(first).toBeUndefined()
  expect(second).toMatchObject({ privateBytes: 1 })
})
