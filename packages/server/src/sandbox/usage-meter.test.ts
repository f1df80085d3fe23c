import { expect, test } from 'vitest'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { UsageMeter } from './usage-meter.ts'

const row = {} as SandboxRow
/** Longer than any time between two samples here. */
const LONG_MS = 1e9

function start() {
  const counted: number[] = []
  let now = 0
  const meter = new UsageMeter({ monotonicMs: () => now }, [
    { sampled: (_row, { cpuMs }) => counted.push(cpuMs) },
  ])
  const enter = (isAdopted = false) => meter.enterBurrow({ isAdopted, isRunning: true })
  const sample = (cpuMs: number, uncalledMs = LONG_MS) => {
    now += 500
    return meter.sample(row, { cpuMs, memoryBytes: 0 }, uncalledMs)
  }
  return { counted, enter, sample }
}

test('the CPU time of a restore is counted, and is not the processes’ own', () => {
  const { counted, enter, sample } = start()
  enter()
  expect(sample(20)).toEqual({ share: 0.04, isOwn: false })
  expect(sample(45)).toEqual({ share: 0.05, isOwn: true })
  enter()
  expect(sample(20)).toEqual({ share: 0.04, isOwn: false })
  expect(counted).toEqual([20, 25, 20])
})

test('the CPU time since a sample is the processes’ own when no call was active meanwhile', () => {
  const { enter, sample } = start()
  enter()
  sample(0)
  expect(sample(50, 499)).toEqual({ share: 0.1, isOwn: false })
  expect(sample(100, 0)).toEqual({ share: 0.1, isOwn: false })
  expect(sample(150, 500)).toEqual({ share: 0.1, isOwn: true })
})

test('what a burrow used that an earlier server counted is not counted again', () => {
  const { counted, enter, sample } = start()
  enter(true)
  expect(sample(1000)).toBeUndefined()
  sample(1010)
  expect(counted).toEqual([10])
})
