import { setTimeout as sleep } from 'node:timers/promises'
import type { DiskUse, Measurement } from '@dormouse/engine'
import { afterEach, expect, it } from 'vitest'
import { DiskMeasuring, type MeasuredTree } from './disk-measuring.ts'

const warnings: string[] = []
const log = { info() {}, error() {}, warn: (_fields: object, message: string) => void warnings.push(message) }
let turns: DiskMeasuring
afterEach(() => {
  turns[Symbol.dispose]()
  warnings.length = 0
})

/** A tree that takes so long to measure, with a record of what happened to it. */
function tree(key: string, { takesMs = 0, bytesPerSecond = 0, fails = false } = {}) {
  const seen = { found: 0, turns: 0, ended: 0, began: [] as number[] }
  const begin = (): Measurement => {
    let left = takesMs
    seen.began.push(performance.now())
    return {
      advance: async (ms): Promise<DiskUse | undefined> => {
        seen.turns += 1
        if (fails) throw new Error('made to fail')
        await sleep(Math.min(ms, left))
        left -= ms
        return left > 0 ? undefined : { bytes: 1, files: 1, isWhole: true }
      },
      [Symbol.dispose]: () => {
        seen.ended += 1
      },
    }
  }
  const found = () => {
    seen.found += 1
  }
  const subject: MeasuredTree = { key, bytesPerSecond, limits: { bytes: 100, files: 100 }, begin, found }
  return { subject, seen }
}

it('DiskMeasuring measures a sandbox while others take minutes, however many and however fast they write', async () => {
  turns = new DiskMeasuring(log)
  const endless = [1, 2, 3, 4].map((n) => tree(`endless-${n}`, { takesMs: 600_000, bytesPerSecond: n * 1e9 }))
  const small = tree('small')
  const round = () => turns.round([...endless, small].map(({ subject }) => subject))
  await expect
    .poll(
      () => {
        round()
        return small.seen.found
      },
      { timeout: 10_000 },
    )
    .toBe(1)
  // And those that take long all come on.
  await expect
    .poll(
      () => {
        round()
        return Math.min(...endless.map(({ seen }) => seen.turns))
      },
      { timeout: 10_000 },
    )
    .toBeGreaterThan(1)
  expect(endless.every(({ seen }) => seen.ended === 0)).toBe(true)
})

it('DiskMeasuring begins with what writes most', async () => {
  turns = new DiskMeasuring(log)
  const order: string[] = []
  const subjects = [1, 5, 3, 9].map((rate) => {
    const { subject } = tree(`rate-${rate}`, { bytesPerSecond: rate })
    const begin = () => {
      order.push(`rate-${rate}`)
      return subject.begin()
    }
    return { ...subject, begin }
  })
  turns.round(subjects)
  expect(order[0]).toBe('rate-9')
  await expect.poll(() => order.length).toBe(4)
})

it('DiskMeasuring rests twenty times as long as it measured', async () => {
  turns = new DiskMeasuring(log)
  const { subject, seen } = tree('one', { takesMs: 150, bytesPerSecond: 1e-9 })
  const timer = setInterval(() => turns.round([subject]), 20)
  await expect.poll(() => seen.found).toBe(1)
  await sleep(2_300)
  expect(seen.began).toHaveLength(1)
  clearInterval(timer)
})

it('DiskMeasuring does not measure a sandbox that writes nothing and sleeps again soon', async () => {
  turns = new DiskMeasuring(log)
  const { subject, seen } = tree('one')
  turns.round([subject])
  await sleep(300)
  turns.round([])
  turns.round([subject])
  expect(seen.began).toHaveLength(0)
  turns.round([{ ...subject, bytesPerSecond: 1 }])
  await expect.poll(() => seen.found).toBe(1)
})

it('DiskMeasuring lets a tree rest longer that does not change, until it is written to', async () => {
  turns = new DiskMeasuring(log)
  const { subject, seen } = tree('one')
  turns.round([{ ...subject, bytesPerSecond: 1 }])
  await expect.poll(() => seen.found).toBe(1)
  const timer = setInterval(() => turns.round([subject]), 20)
  await expect.poll(() => seen.found, { timeout: 5_000 }).toBe(2)
  await sleep(2_500)
  expect(seen.began).toHaveLength(2)
  turns.round([{ ...subject, bytesPerSecond: 1 }])
  expect(seen.began).toHaveLength(3)
  clearInterval(timer)
})

it('DiskMeasuring ends the measurement of what is not there any more', async () => {
  turns = new DiskMeasuring(log)
  const { subject, seen } = tree('one', { takesMs: 600_000, bytesPerSecond: 1 })
  turns.round([subject])
  await expect.poll(() => seen.turns).toBe(1)
  turns.round([])
  await expect.poll(() => seen.ended).toBeGreaterThan(0)
})

it('DiskMeasuring says what could not be measured, and tries again', async () => {
  turns = new DiskMeasuring(log)
  const { subject, seen } = tree('one', { fails: true, bytesPerSecond: 1 })
  const timer = setInterval(() => turns.round([subject]), 20)
  await expect.poll(() => seen.turns, { timeout: 5_000 }).toBe(2)
  expect(warnings).toContain('the disk use of a tree could not be measured')
  clearInterval(timer)
})
