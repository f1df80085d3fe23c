import { describe } from 'vitest'
import { describeAdopt } from './adopt.ts'
import type { EngineFactory } from './engine-factory.ts'
import { describeLifecycle } from './lifecycle.ts'
import { describeLimits } from './limits.ts'

export type { EngineFactory } from './engine-factory.ts'

/** What every engine must do. An engine's own tests call this with a factory; a part left out needs a reason there. */
export function describeEngineContract(name: string, factory: EngineFactory): void {
  describe(`engine contract: ${name}`, () => {
    describeLifecycle(factory)
    describeAdopt(factory)
    describeLimits(factory)
  })
}
