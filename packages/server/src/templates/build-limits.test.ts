import { expect, it } from 'vitest'
import { buildLimits } from './build-limits.ts'

const GIB = 1024 ** 3
const settings = { cpus: 2, pids: 1024, diskBytes: 10 * GIB, files: 1_000 }

it('gives a build the memory of sandboxes, and what compilers need at least', () => {
  expect(buildLimits(settings, { memoryBytes: 8 * GIB })).toEqual({ ...settings, memoryBytes: 8 * GIB })
  expect(buildLimits(settings, { memoryBytes: GIB }).memoryBytes).toBe(2 * GIB)
})

it('obeys the setting of the operator', () => {
  const memoryBytes = GIB / 2
  expect(buildLimits({ ...settings, memoryBytes }, { memoryBytes: 8 * GIB }).memoryBytes).toBe(memoryBytes)
})
