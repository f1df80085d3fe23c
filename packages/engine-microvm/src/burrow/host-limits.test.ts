import { burrowLimitsSchema } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Machine } from '../storage/manifest.ts'
import { guestLimits, machineSize, refuseLimits } from './host-limits.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const limitsOf = (change: object) => burrowLimitsSchema.parse(change)
const machine = { memoryBytes: 2 * GIB, cpus: 1 } as Machine

describe('the machine for a limit', () => {
  test.each([
    [256 * MIB, GIB],
    [896 * MIB, GIB],
    [897 * MIB, 2 * GIB],
    [GIB, 2 * GIB],
    [2 * GIB, 4 * GIB],
  ])('of %d bytes has %d, with room for its kernel', (memoryBytes, size) => {
    expect(machineSize(limitsOf({ memoryBytes })).memoryBytes).toBe(size)
  })

  test('has room for what a pause needs above the limit', () => {
    const limits = limitsOf({ memoryBytes: 1.75 * GIB, atMemoryLimit: 'pause' })
    expect(machineSize(limits).memoryBytes).toBe(4 * GIB)
  })

  test.each([
    [0.5, 1],
    [1, 1],
    [1.5, 2],
    [64, 16],
  ])('of %d CPUs has %d processors', (cpus, processors) => {
    expect(machineSize(limitsOf({ cpus })).cpus).toBe(processors)
  })
})

describe('what a guest is told', () => {
  test('is its limit, and no pause', () => {
    expect(guestLimits(limitsOf({ memoryBytes: GIB, pids: 100 }), machine)).toBe(`limits ${GIB} 100 0`)
  })

  test('with a pause is the limit at which programs wait, and one a quarter higher', () => {
    const limits = limitsOf({ memoryBytes: GIB, pids: 100, atMemoryLimit: 'pause' })
    expect(guestLimits(limits, machine)).toBe(`limits ${1.25 * GIB} 100 ${GIB}`)
    expect(guestLimits(limits, machine, { isPausing: false })).toBe(`limits ${1.25 * GIB} 100 0`)
  })

  test('leaves its kernel what it needs', () => {
    expect(guestLimits(limitsOf({ memoryBytes: 2 * GIB }), machine)).toMatch(`limits ${2 * GIB - 128 * MIB} `)
  })
})

test('a limit above the memory of the machine is refused, with the most that it can be', () => {
  expect(() => refuseLimits(limitsOf({ memoryBytes: 2 * GIB }), machine)).not.toThrow()
  expect(() => refuseLimits(limitsOf({ memoryBytes: 2 * GIB + 1 }), machine)).toThrow(
    expect.objectContaining({
      code: 'isolation_unsupported',
      details: { field: 'memoryBytes', mostBytes: 2 * GIB },
    }),
  )
})
