import { type ContractPart, describeEngineContract } from '@dormouse/engine/contract'
import { afterAll, beforeAll, describe, test, vi } from 'vitest'
import { CHOSEN_TESTS, whyLeftOut } from './left-out.ts'
import { BOOT_TIMEOUT_MS, bootTemplate, microvmFactory, microvmMissing } from './microvm-factory.ts'

/** Under emulation a machine starts in seconds, so the default is a selection. */
const IS_WHOLE = process.env['DORMOUSE_TEST_LARGE'] === '1'
const PARTS = (process.env['DORMOUSE_MICROVM_PARTS']?.split(',') ??
  (IS_WHOLE
    ? ['life', 'resources', 'sleep', 'files', 'runs', 'processes', 'network']
    : ['life', 'sleep', 'files', 'network'])) as ContractPart[]

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
  ]
  for (const part of PARTS) {
    describeEngineContract('microvm', part, factory, {
      ...(!IS_WHOLE && { topics }),
      skip: (name) =>
        whyLeftOut(name) ?? (IS_WHOLE || CHOSEN_TESTS.has(name) ? undefined : 'not in the selection'),
    })
  }
}
