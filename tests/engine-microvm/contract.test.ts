import { CONTRACT_PARTS, type ContractPart, describeEngineContract } from '@dormouse/engine/contract'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { CHOSEN_TESTS, whyLeftOut } from './left-out.ts'
import { BOOT_TIMEOUT_MS, bootTemplate, microvmFactory, microvmMissing } from './microvm-factory.ts'

/** Under emulation a machine starts in seconds, so the default is a selection. */
const IS_WHOLE = process.env['DORMOUSE_TEST_LARGE'] === '1'
const WANTED_PARTS = process.env['DORMOUSE_MICROVM_PARTS']?.split(',') as ContractPart[] | undefined
const PARTS = WANTED_PARTS ?? CONTRACT_PARTS

const missing = await microvmMissing()

if (missing !== undefined) {
  describe('engine contract: microvm', () => {
    // Skip: QEMU and the kernel of guests are installed only when asked for.
    test.skip(missing, () => {})
  })
} else {
  const factory = await microvmFactory()
  vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })
  beforeAll(() => bootTemplate(factory), BOOT_TIMEOUT_MS)
  afterAll(() => factory.cleanUp())
  const topics = [
    ...['lifecycle', 'adopt', 'sleep', 'fork', 'ports', 'network', 'networkAsleep'],
    ...['volumes', 'volumesAsleep'],
    ...['runsState', 'runsErrors', 'runsOutput', 'runsResults', 'processes', 'limits'],
  ]
  const found = new Set<string>()
  for (const part of PARTS) {
    describeEngineContract('microvm', part, factory, {
      ...(!IS_WHOLE && { topics }),
      skip(name) {
        found.add(name)
        return whyLeftOut(name) ?? (IS_WHOLE || CHOSEN_TESTS.has(name) ? undefined : 'not in the selection')
      },
    })
  }
  // Skip: one part has only some of them.
  test.skipIf(WANTED_PARTS !== undefined)('every test of the selection exists', () => {
    expect([...CHOSEN_TESTS].filter((name) => !found.has(name))).toEqual([])
  })
}
